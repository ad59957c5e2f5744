package guard_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// made is a launcher in a request, without a namespace. With a migration it belongs to VM db,
// otherwise to VM web.
func made(memory, migration string) *corev1.Pod {
	pod := launcher("web", "1", memory)
	if migration != "" {
		pod = launcher("db", "1", memory)
		pod.Labels[kubevirtv1.MigrationJobLabel] = migration
	}
	pod.Namespace, pod.GenerateName, pod.Name, pod.UID, pod.Status.Phase = "", pod.Name+"-", "", "",
		""
	return pod
}

func TestLaunchers(t *testing.T) {
	refused := []string{"exceeded quota", "VM web", "ResourceQuota default",
		"limits.memory: requested 9Gi, free 8Gi"}
	faked := []string{"exceeded quota", "VM db", "limits.memory: requested 9Gi, free 8Gi"}
	plain := made("9Gi", "")
	delete(plain.Labels, kubevirtv1.AppLabel)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		ns   *corev1.Namespace
		user string
		why  []string
	}{
		"fits":                      {made("8Gi", ""), namespace(), virtController, nil},
		"uses reserved amounts":     {made("9Gi", ""), namespace(), virtController, refused},
		"is no launcher":            {plain, namespace(), eve, nil},
		"is a target":               {made("9Gi", "m-db"), namespace(), virtController, nil},
		"says that it is a target":  {made("9Gi", "m-db"), namespace(), eve, faked},
		"target without a ledger":   {made("99Gi", "m-other"), namespace(), virtController, nil},
		"in a namespace that ends":  {made("9Gi", ""), ending(), virtController, nil},
		"of Kubernetes' controller": {made("9Gi", ""), namespace(), guard.KubeSystem, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(migrating(), test.ns, raised(), reservation(),
				kubevirtObject())...)
			r := ask(t, admissionv1.Create, nil, test.pod)
			r.Namespace, r.UserInfo.Username = "vms", test.user
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestTargetOfAnUnknownKubeVirt: without KubeVirt settings the guard warns about a target.
func TestTargetOfAnUnknownKubeVirt(t *testing.T) {
	w := newWorld(t, append(migrating(), namespace(), raised(), reservation())...)
	for _, user := range []string{eve, virtController} {
		unnoted(t, w, user, made("5Gi", "m-db"), "no object of kind KubeVirt")
	}
}
