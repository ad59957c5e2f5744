package nodeconfig

import (
	"fmt"
	"strings"
)

// flavour is a kind of node: the places of containerd's files. Paths are the node's.
type flavour struct {
	name    string
	marker  string   // exists only on nodes of this flavour
	config  string   // the configuration that containerd reads
	dropIns []string // directories for drop-ins

	// templates generate config. The first existing one counts. Without templates, the node's owner
	// writes config.
	templates []string

	programs []string // containerd: the first existing one counts
	socket   string   // created at containerd's start

	// server exists on control-plane nodes with a unit of their own.
	server                string
	serverUnit, agentUnit string
}

// flavours returns all flavours in the order of detection. A node of k3s may have an unused
// /etc/containerd, too.
func flavours() []flavour {
	kubeadm := flavour{
		name: "kubeadm", marker: "/etc/containerd",
		config: "/etc/containerd/config.toml", dropIns: []string{"/etc/containerd/conf.d"},
		programs: []string{"/usr/local/bin/containerd", "/usr/bin/containerd",
			"/usr/local/sbin/containerd", "/usr/sbin/containerd"},
		socket:    "/run/containerd/containerd.sock",
		agentUnit: "containerd.service",
	}
	kind := kubeadm
	kind.name, kind.marker = "kind", "/kind/version"
	k3s := rancher("k3s", "/data/current/bin/containerd")
	k3s.serverUnit, k3s.agentUnit = "k3s.service", "k3s-agent.service"
	rke2 := rancher("rke2", "/bin/containerd")
	rke2.serverUnit, rke2.agentUnit = "rke2-server.service", "rke2-agent.service"
	return []flavour{k3s, rke2, kind, kubeadm}
}

// rancher returns the common parts of k3s and RKE2. program is containerd's path below the data
// directory.
func rancher(name, program string) flavour {
	data := "/var/lib/rancher/" + name
	dir := data + "/agent/etc/containerd"
	return flavour{
		name: name, marker: dir,
		config:    dir + "/config.toml",
		dropIns:   []string{dir + "/config-v3.toml.d", dir + "/config.toml.d"},
		templates: []string{dir + "/config-v3.toml.tmpl", dir + "/config.toml.tmpl"},
		programs:  []string{data + program},
		socket:    "/run/k3s/containerd/containerd.sock",
		server:    data + "/server",
	}
}

// Flavours returns the names of all flavours.
func Flavours() (names []string) {
	for _, f := range flavours() {
		names = append(names, f.name)
	}
	return names
}

// detect returns the flavour of the node: the given one, or the first one with its marker.
func (n *Node) detect() (flavour, error) {
	if err := n.checkRoot(); err != nil {
		return flavour{}, err
	}
	var markers []string
	for _, f := range flavours() {
		if n.Flavour == f.name {
			return f, nil
		}
		found, err := n.exists(f.marker)
		if err != nil {
			return flavour{}, err
		}
		if found && n.Flavour == "" {
			return f, nil
		}
		markers = append(markers, f.marker)
	}
	if n.Flavour != "" {
		return flavour{}, fmt.Errorf("flavour %q: want %s", n.Flavour,
			strings.Join(Flavours(), ", "))
	}
	return flavour{}, fmt.Errorf("no containerd found on the node with root %s: none of %s "+
		"exists; --flavour names one", n.Root, strings.Join(markers, ", "))
}

// unit returns the systemd unit of containerd.
func (n *Node) unit(f flavour) (string, error) {
	if f.server == "" {
		return f.agentUnit, nil
	}
	server, err := n.exists(f.server)
	if server {
		return f.serverUnit, err
	}
	return f.agentUnit, err
}

// program returns the path of containerd.
func (n *Node) program(f flavour) (string, error) {
	if n.Containerd != "" {
		return n.Containerd, nil
	}
	for _, path := range f.programs {
		found, err := n.exists(path)
		if found || err != nil {
			return path, err
		}
	}
	return "", fmt.Errorf("containerd not found: none of %s exists; --containerd names another "+
		"path", strings.Join(f.programs, ", "))
}

// dropInDir returns the directory for the drop-in, empty if the configuration imports none. Without
// templates there is one directory, and containerd checks the result.
func (f flavour) dropInDir(config string) (string, error) {
	if len(f.templates) == 0 {
		return f.dropIns[0], nil
	}
	patterns, err := imports(config)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", f.config, err)
	}
	for _, dir := range f.dropIns {
		if imported(patterns, f.config, dir+"/"+dropInName) {
			return dir, nil
		}
	}
	return "", nil
}
