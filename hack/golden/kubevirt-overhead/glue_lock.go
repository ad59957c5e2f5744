package main

import (
	"errors"
	"fmt"
)

// lockFolders are the packages of virt-handler's memory lock, newest first.
var lockFolders = []string{"pkg/hypervisor/kvm", "pkg/virt-handler/isolation"}

// adjust are the functions of the memory lock. Each release has some of them.
var adjust = []string{"AdjustResources", "AdjustQemuProcessMemoryLimits", "CalculateMemlockSize"}

// needForLocks extracts the packages that lockCode uses.
func (e *extraction) needForLocks(folder string) error {
	p := e.packages[folder]
	err := errors.Join(e.needImported(p, "runtime", "runtime", ""),
		e.needImported(p, "rlimit", module+"/standin/rlimit", ""))
	if err == nil && folder == lockFolders[0] {
		err = e.needImported(p, "isolation", module+"/pkg/virt-handler/isolation", "Detector")
	}
	return err
}

// lockCode calls the functions for a VM at its start and for a running one. Since 1.8 one function
// serves both, and reads the ratio from the configuration.
func lockCode(folder string, d declaration) string {
	calls := `
	set(new(socketBasedIsolationDetector).AdjustResources(vmi%[1]s))
	start = rlimit.Take()
	set(AdjustQemuProcessMemoryLimits(Detector(), vmi%[1]s))
	return start, rlimit.Take()`
	ratio := ""
	if folder == lockFolders[0] {
		calls = `
	config := &v1.KubeVirtConfiguration{AdditionalGuestMemoryOverheadRatio: ratio}
	k := &KvmVirtRuntime{podIsolationDetector: isolation.Detector()}
	set(k.AdjustResources(vmi, config))
	start = rlimit.Take()
	vmi.Status.Phase = v1.Running
	set(k.AdjustResources(vmi, config))
	return start, rlimit.Take()%[1]s`
	} else if parameters(d) > 1 {
		ratio = ", ratio"
	}
	return fmt.Sprintf(`
func Locks(
	vmi *v1.VirtualMachineInstance, arch string, ratio *string,
) (start, running string) {
	runtime.GOARCH = arch
	set := func(err error) {
		if err != nil {
			panic(err)
		}
	}`+calls+`
}
`, ratio)
}
