package cli

import (
	"bytes"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func quotaStatusOf(t *testing.T, s *quotaServer, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"quota", "status", "vms", "--kubeconfig", s.kubeconfig}, args...)
	code := testProgram(&out, &errOut).Run(t.Context(), args)
	return result{code, out.String(), errOut.String()}
}

func TestQuotaStatus(t *testing.T) {
	for name, args := range map[string][]string{"quota-status": nil,
		"quota-status-json": {"-o", "json"}} {
		t.Run(name, func(t *testing.T) {
			got := quotaStatusOf(t, startQuotaServer(t), args...)
			if got.code != ExitOK || got.errOut != "" {
				t.Errorf("exit code %d, stderr %q", got.code, got.errOut)
			}
			golden(t, name, got.out)
		})
	}
	goldens(t, &agent{}, map[string][]string{"help-quota-status": {"help", "quota", "status"}})
}

// The command only reads, and it reads pods first: see quota.Account.Free.
func TestQuotaStatusRequests(t *testing.T) {
	s := startQuotaServer(t)
	if got := quotaStatusOf(t, s); got.code != ExitOK {
		t.Errorf("%+v", got)
	}
	var want []string
	for _, path := range []string{podsPath, reservationsPath, migrationsPath, quotasPath,
		namespacePath, kubevirtsPath} {
		want = append(want, "GET "+path)
	}
	if diff := cmp.Diff(want, s.requests); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The output names each missing part and shows the rest.
func TestQuotaStatusWithMissingParts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*quotaServer)
		want   []string
	}{
		"reservations": {func(s *quotaServer) { delete(s.objects, reservationsPath) },
			[]string{"limits.cpu     8     0 ", "note: migrationreservations.mooring.dev is not " +
				"installed in the cluster: there are no reservations\n"}},
		"KubeVirt": {func(s *quotaServer) {
			delete(s.objects, kubevirtsPath)
			delete(s.objects, migrationsPath)
		},
			[]string{"db   m-db       -      Charged", "\nKubeVirt's settings: KubeVirt is not " +
				"installed in the cluster\n"}},
		"KubeVirt object": {func(s *quotaServer) {
			s.objects[kubevirtsPath] = kubevirtv1.KubeVirtList{}
		},
			[]string{"\nKubeVirt's settings: KubeVirt is not installed in the cluster\n"}},
		"right to read KubeVirt": {func(s *quotaServer) { s.forbid(kubevirtsPath, "kubevirts") },
			[]string{`KubeVirt's settings: not known: `,
				`requires a role with the verb "list" for kubevirts`}},
		"settings": {func(s *quotaServer) {
			s.objects[kubevirtsPath] = kubevirtv1.KubeVirtList{
				Items: make([]kubevirtv1.KubeVirt, 1)}
		},
			[]string{"parallelMigrationsPerCluster       5             KubeVirt's default",
				"allowWorkloadDisruption            false         KubeVirt's default"}},
		"valid settings": {func(s *quotaServer) {
			s.objects[kubevirtsPath] = map[string]any{"items": "none"}
		},
			[]string{"KubeVirt's settings: not known: decode a *v1.KubeVirtList: "}},
		"right to list migrations": {func(s *quotaServer) {
			s.forbid(migrationsPath, "virtualmachineinstancemigrations")
		},
			[]string{"db   m-db       -      Charged",
				`requires a role with the verb "list" for virtualmachineinstancemigrations`}},
		"migrations": {func(s *quotaServer) {
			delete(s.objects, reservationsPath)
			delete(s.objects, migrationsPath)
		}, []string{"no migrations\n"}},
		"a migration": {func(s *quotaServer) {
			s.objects[migrationsPath] = kubevirtv1.VirtualMachineInstanceMigrationList{}
		},
			[]string{"db   m-db       gone   Charged"}},
		"quotas": {func(s *quotaServer) { s.objects[quotasPath] = corev1.ResourceQuotaList{} },
			[]string{"no ResourceQuota in namespace vms"}},
		"valid maintenance share": {func(s *quotaServer) {
			s.objects[namespacePath] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms",
				Annotations: map[string]string{"harvesterhci.io/maintenanceQuota": "half"}}}
		},
			[]string{
				`fault: Namespace vms: annotation harvesterhci.io/maintenanceQuota: "half": ` +
					`want JSON`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startQuotaServer(t)
			c.change(s)
			got := quotaStatusOf(t, s)
			if got.code != ExitOK || got.errOut != "" {
				t.Errorf("exit code %d, stderr %q", got.code, got.errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("output lacks %q:\n%s", want, got.out)
				}
			}
		})
	}
}

// The command fails if it cannot read an input of the figures.
func TestQuotaStatusErrors(t *testing.T) {
	forbidden := func(path, resource string) func(*quotaServer) {
		return func(s *quotaServer) { s.forbid(path, resource) }
	}
	for name, c := range map[string]struct {
		change func(*quotaServer)
		args   []string
		code   int
		want   string
	}{
		"no such namespace": {func(s *quotaServer) {
			s.objects[namespacePath] = failure(http.StatusNotFound, metav1.StatusReasonNotFound,
				`namespaces "vms" not found`)
		}, nil, ExitNotFound, "error: quota status of namespace vms: namespaces \"vms\" not " +
			"found\n"},
		"no right to pods": {forbidden(podsPath, "pods"), nil, ExitPermission,
			`requires a role with the verb "list" for pods`},
		"no right to reservations": {forbidden(reservationsPath, "migrationreservations"), nil,
			ExitPermission, `requires a role with the verb "list" for migrationreservations`},
		"no right to quotas": {forbidden(quotasPath, "resourcequotas"), nil, ExitPermission,
			`requires a role with the verb "list" for resourcequotas`},
		"reservations of another version": {func(s *quotaServer) {
			s.objects[reservationsPath] = map[string]any{"items": 7}
		}, nil, ExitFailure,
			"quota status of namespace vms: decode a *v1alpha1.MigrationReservationList: "},
		"prefix": {nil, []string{"--annotation-prefix=example.com"}, ExitUsage,
			`--annotation-prefix "example.com": want a domain and a slash`},
		"manager's annotation": {nil, []string{"--manager-annotation=a b"}, ExitUsage,
			`--manager-annotation "a b": want the name of an annotation, or -`},
		"manager's label": {nil, []string{"--manager-label=-"}, ExitUsage,
			`--manager-label "-": want the name of a label`},
		"no cluster": {nil, []string{"--kubeconfig="}, ExitUsage,
			"no cluster: want --kubeconfig FILE, or KUBECONFIG"},
		"two namespaces": {nil, []string{"lab"}, ExitUsage, "want NAMESPACE"},
		"format":         {nil, []string{"-o", "xml"}, ExitUsage, "want table, wide, json, yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startQuotaServer(t)
			if c.change != nil {
				c.change(s)
			}
			got := quotaStatusOf(t, s, c.args...)
			if got.code != c.code || !strings.Contains(got.errOut, c.want) || got.out != "" {
				t.Errorf("got %+v, want exit code %d and %q", got, c.code, c.want)
			}
		})
	}
}

func TestQuotaStatusOfInvalidNamespace(t *testing.T) {
	for _, namespace := range []string{"", "a/b", "..", "Vms"} {
		var out, errOut bytes.Buffer
		code := testProgram(&out, &errOut).Run(t.Context(), []string{"quota", "status", namespace})
		if code != ExitUsage || !strings.Contains(errOut.String(), "want a namespace name") {
			t.Errorf("%q: exit code %d, %q", namespace, code, errOut.String())
		}
	}
}

// The annotation flags have the same meaning as in the controller.
func TestQuotaStatusFlags(t *testing.T) {
	s := startQuotaServer(t)
	s.objects[namespacePath] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms",
		Annotations: map[string]string{
			"example.com/maintenanceQuota": `{"limitsMemoryPercent": 25}`,
			"example.com/quota":            `{"limit":{"limitsCpu":"7"}}`,
		}}}
	managed := raisedQuota()
	managed.Labels = map[string]string{"example.com/managed": "true"}
	s.objects[quotasPath] = corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{managed}}
	got := quotaStatusOf(t, s, "--annotation-prefix=example.com/",
		"--manager-annotation=example.com/quota", "--manager-label=example.com/managed")
	for _, want := range []string{"limits.cpu     7  ", "maintenance share: 25% of " +
		"limits.memory\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("output lacks %q:\n%s%s", want, got.out, got.errOut)
		}
	}
}

func TestQuotaStatusSelectsCluster(t *testing.T) {
	s, none := startQuotaServer(t), filepath.Join(t.TempDir(), "none")
	home := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	for name, c := range map[string]struct {
		env, home string
		code      int
	}{
		"environment": {s.kubeconfig, none, ExitOK},
		"kubectl's":   {"", s.kubeconfig, ExitOK},
		"none":        {"", none, ExitUsage},
	} {
		t.Setenv(clientcmd.RecommendedConfigPathEnvVar, c.env)
		clientcmd.RecommendedHomeFile = c.home
		var out, errOut bytes.Buffer
		if code := testProgram(&out, &errOut).Run(t.Context(),
			[]string{"quota", "status", "vms"}); code != c.code {
			t.Errorf("%s: exit code %d, %q; want %d", name, code, errOut.String(), c.code)
		}
	}
}

// The defaults in the output equal the defaults in KubeVirt's own documentation.
func TestQuotaDefaults(t *testing.T) {
	documented := kubevirtv1.MigrationConfiguration{}.SwaggerDoc()
	settings := migrationSettings(&kubevirtv1.MigrationConfiguration{})
	if len(settings) != 8 {
		t.Errorf("%+v", settings)
	}
	for _, s := range settings {
		text, known := documented[s.Name]
		_, value, found := strings.Cut(text, "Defaults to ")
		if !known || !s.Default || found && !strings.HasPrefix(value, s.Value) {
			t.Errorf("%+v, want the documented %q", s, text)
		}
	}
}

func TestQuotaInDocs(t *testing.T) {
	s := startQuotaServer(t)
	s.serveDocumentedExample()
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, s.kubeconfig)
	doc := readDoc(t, "docs", "how-to", "quota.md")
	runCommandsIn(t, "how-to/quota.md", 1, nil)
	for _, name := range jsonNames(reflect.TypeFor[quotaStatusJSON]()) {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("docs/how-to/quota.md lacks %s", name)
		}
	}
}
