package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/quota"
)

// kubevirtTexts are virt-controller's texts about a launcher that a quota rejects.
type kubevirtTexts struct{ release, reason, message, phrase string }

// readTexts reads testdata/rejections.tsv: a row for each of KubeVirt 1.6 to 1.9.
func readTexts(t *testing.T) []kubevirtTexts {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "rejections.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var all []kubevirtTexts
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[2:] {
		f := strings.Split(line, "\t")
		all = append(all, kubevirtTexts{f[0], f[1], f[2], f[3]})
	}
	if len(all) < 4 {
		t.Fatalf("texts of %d releases, want four", len(all))
	}
	return all
}

// TestRejectionsOfEachKubeVirt uses the reason and the message of each version's virt-controller.
func TestRejectionsOfEachKubeVirt(t *testing.T) {
	for _, texts := range readTexts(t) {
		t.Run(texts.release, func(t *testing.T) {
			message := fmt.Sprintf(strings.ReplaceAll(texts.message, "%v", "%s"), rejected)
			if !isHalted(reconcileWithCondition(t, texts.reason, message)) {
				t.Errorf("reason %s, message %q: the VM runs, want it halted", texts.reason,
					message)
			}
			refusal := quota.RefuseLauncher("vm", "ResourceQuota quota: pods: requested 1, free 0")
			if !strings.Contains(refusal, texts.phrase) {
				t.Errorf("KubeVirt does not take %q for a quota's rejection: want %q in it",
					refusal, texts.phrase)
			}
		})
	}
}

// TestOtherReasonsDoNotHalt: the text alone does not count, since other conditions may quote it.
func TestOtherReasonsDoNotHalt(t *testing.T) {
	for _, reason := range []string{"", "FailedPvcNotFound", "FailedDelete"} {
		if isHalted(reconcileWithCondition(t, reason, rejected)) {
			t.Errorf("reason %q: the VM is halted", reason)
		}
	}
}

// reconcileWithCondition returns a VM after the Halter has seen this reason and message.
func reconcileWithCondition(t *testing.T, reason, message string) *kubevirtv1.VirtualMachine {
	t.Helper()
	w := migrating(t)
	vm, vmi := rejectedVM(func(_ *kubevirtv1.VirtualMachine,
		vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Status.Conditions[0].Reason, vmi.Status.Conditions[0].Message = reason, message
	})
	w.create(t, vm)
	w.create(t, vmi)
	vm, _ = reconcileRejectedVM(t, w, interceptor.Funcs{})
	return vm
}
