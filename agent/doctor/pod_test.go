package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const validatorOn = "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\n"

// hostOf makes the root file system of a node in a folder, with an absolute link and sockets as on
// Debian.
func hostOf(t *testing.T, files map[string]string) string {
	t.Helper()
	host := filepath.Dir(socketPath(t))
	all := goodFiles()
	delete(all, "proc/mounts")
	maps.Copy(all, files)
	for path, content := range all {
		at := filepath.Join(host, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755),
			os.WriteFile(at, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(host, "run/nri"), 0o755),
		os.MkdirAll(filepath.Join(host, "var"), 0o755),
		os.Symlink("/run", filepath.Join(host, "var/run"))); err != nil {
		t.Fatal(err)
	}
	listen(t, filepath.Join(host, "run/nri/nri.sock"))
	return host
}

// serveCRIAt answers as the containerd of a node.
func serveCRIAt(t *testing.T, socket string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, cri{})
	l := listen(t, socket)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
}

func byCheck(r Report) map[string]Finding {
	findings := map[string]Finding{}
	for _, f := range r.Findings {
		findings[f.Check] = f
	}
	return findings
}

// TestSeesNodeFromPod examines a node whose root file system is mounted elsewhere. Nothing of this
// machine's file system must appear.
func TestSeesNodeFromPod(t *testing.T) {
	host := hostOf(t, map[string]string{
		"proc/1/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nbpf /sys/fs/bpf bpf rw 0 0\n",
		"etc/containerd/config.toml": "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n" +
			"[plugins.'io.containerd.nri.v1.nri']\nplugin_request_timeout = '3s'\n",
		"etc/containerd/conf.d/m.toml": "version = 3\nimports = ['../more.toml']\n" +
			validatorOn,
		"etc/containerd/more.toml":         "version = 3\nimports = ['config.toml']\n",
		"opt/mooring/libexec/mooring-hook": "ELF",
		"proc/300/comm":                    "kubelet\n",
		"proc/300/cmdline":                 "/usr/bin/kubelet\x00--config=/etc/kubelet.yaml\x00",
		"etc/kubelet.yaml":                 "cgroupDriver: systemd\n",
	})
	serveCRIAt(t, filepath.Join(host, "run/containerd/containerd.sock"))
	found := byCheck(Examine(t.Context(), ThisMachine(Options{Host: host,
		AgentSocket: socketPath(t)})))
	for check, want := range map[string]struct {
		status Status
		text   string
	}{
		"kernel":       {OK, "6.12.48+deb13-cloud-amd64"},
		"bpffs":        {OK, "bpffs at /sys/fs/bpf"},
		"cgroup-v2":    {OK, "cgroup v2 at /sys/fs/cgroup"},
		"containerd":   {OK, "containerd v2.4.2"},
		"nri":          {OK, "on, at /var/run/nri/nri.sock"},
		"nri-timeouts": {OK, "request 3s"},
		"validator":    {OK, "on, by /etc/containerd/config.toml with imports"},
		"hook":         {OK, podHook},
		"neighbours":   {Unknown, onNode},
		"kubelet":      {Unknown, "cgroup driver systemd"},
	} {
		if f := found[check]; f.Status != want.status ||
			!strings.Contains(f.Found+f.Means+f.Mend, want.text) {
			t.Errorf("%+v, want %s with %q", f, want.status, want.text)
		}
	}
}

// TestFaultyConfigFromPod wants the file and the reason of a configuration that containerd refuses.
func TestFaultyConfigFromPod(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"no TOML":   {"version = ", "/etc/containerd/config.toml: "},
		"no import": {"imports = ['/etc/none.toml']", "/etc/none.toml: no such file"},
	} {
		host := hostOf(t, map[string]string{"etc/containerd/config.toml": c.config})
		_, err := hostFS(host).loadConfig(t.Context(), defaultConfig)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	_, err := hostFS(t.TempDir()).loadConfig(t.Context(), defaultConfig)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// TestHostLinks follows links of the node inside of its root file system alone.
func TestHostLinks(t *testing.T) {
	host := hostOf(t, map[string]string{"etc/real": "inside"})
	for link, target := range map[string]string{"etc/absolute": "/etc/real",
		"etc/outside": "../../../../../../../../etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(host, link)); err != nil {
			t.Fatal(err)
		}
	}
	root := hostFS(host)
	if text, err := fs.ReadFile(root, "etc/absolute"); string(text) != "inside" || err != nil {
		t.Errorf("absolute link: %q, %v", text, err)
	}
	if _, err := fs.ReadFile(root, "etc/outside"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("link to outside: %v", err)
	}
	if to, err := fs.ReadLink(root, "etc/absolute"); to != "/etc/real" || err != nil {
		t.Errorf("ReadLink: %q, %v", to, err)
	}
}

// TestRuntimeSocket prefers the socket of containerd, and finds that of k3s.
func TestRuntimeSocket(t *testing.T) {
	host := hostOf(t, nil)
	for _, socket := range []string{"/run/k3s/containerd/containerd.sock", containerdSocket} {
		serveCRIAt(t, filepath.Join(host, socket))
		if got, err := hostFS(host).runtimeSocket(""); got != filepath.Join(host, socket) ||
			err != nil {
			t.Errorf("got %q, %v; want %s", got, err, socket)
		}
	}
	if got, err := hostFS(host).runtimeSocket("/var/run/x.sock"); err != nil ||
		got != filepath.Join(host, "run/x.sock") {
		t.Errorf("a given socket: %q, %v", got, err)
	}
}
