package kubevirt_test

import (
	"fmt"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

const withGPU = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: fedora
spec:
  domain:
    cpu:
      cores: 4
    memory:
      guest: 8Gi
    resources:
      requests:
        memory: 8Gi
    devices:
      gpus:
      - name: gpu
        deviceName: nvidia.com/A30
`

func ExampleLimit() {
	vm, err := vmi.Read([]byte(withGPU))
	if err != nil {
		fmt.Println(err)
		return
	}
	version, err := kubevirt.ParseVersion("v1.9.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := kubevirt.Limit(vm, version, kubevirt.Ratio{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, term := range limit.Terms {
		fmt.Printf("%11d %s\n", term.Bytes, term.Name)
	}
	fmt.Printf("%11d because %s\n", limit.Bytes, limit.Reason)
	// Output:
	//    16777216 page tables
	//    26214400 virt-launcher-monitor
	//   104857600 virt-launcher
	//    26214400 virtlogd
	//    41943040 virtqemud
	//    31457280 qemu
	//    33554432 4 vCPUs
	//     8388608 I/O thread
	//    33554432 graphics
	//  1073741824 VFIO devices
	//  8589934592 guest memory (memory.guest)
	//         408 rounding up to 1000 bytes
	//  9986638232 because the VM has gpus (1)
}

// The same VM by release, and with additionalGuestMemoryOverheadRatio.
func ExampleOverhead() {
	vm := kubevirt.VM{CPU: kubevirt.CPU{Cores: 1},
		Memory: kubevirt.Memory{Guest: 1 << 30, Request: 1 << 30}}
	for _, release := range []string{"0.58.2", "1.4.0", "1.5.0", "1.7.0", "main"} {
		version, err := kubevirt.ParseVersion(release)
		if err != nil {
			fmt.Println(err)
			return
		}
		ratio, err := kubevirt.ParseRatio("1.5")
		if err != nil {
			fmt.Println(err)
			return
		}
		_, plain, err := kubevirt.Overhead(vm, version, kubevirt.Ratio{})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, more, err := kubevirt.Overhead(vm, version, ratio)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-6s %d MiB, with ratio %s %d bytes\n", version, plain>>20, ratio, more)
	}
	// Output:
	// 0.58.2 244 MiB, with ratio 1.5 383778544 bytes
	// 1.4.0  244 MiB, with ratio 1.5 383778544 bytes
	// 1.5.0  254 MiB, with ratio 1.5 399507304 bytes
	// 1.7.0  270 MiB, with ratio 1.5 424673520 bytes
	// main   290 MiB, with ratio 1.5 456131040 bytes
}
