package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

// maxInput bounds the size of an input file. No domain or VM is that large.
const maxInput = 16 << 20

// memlockOptions are the flags of memlock.
type memlockOptions struct {
	domain, vmi    string
	version, ratio string
	nvlink2        bool
	output         *format
}

func (p *Program) memlockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memlock --domain FILE | --vmi FILE --kubevirt-version VERSION",
		Short: "Compute the memory-lock limit of a VM, with its terms",
		Long: "Computes a VM's memory-lock limit and shows the terms of the sum. Needs no\n" +
			"agent and no node.\n\n" +
			"From a domain XML (--domain): libvirt's limit for QEMU. From a KubeVirt\n" +
			"VirtualMachineInstance or VirtualMachine (--vmi): the launcher's overhead in\n" +
			"that version of KubeVirt plus the guest's largest memory, if the VM has VFIO\n" +
			"devices, SEV, real time or a required lock. With both: the larger limit.\n" +
			"Beside it stands the limit that KubeVirt itself sets, to the byte.\n\n" +
			"The answer is unknown if a device may be missing from the file: a network\n" +
			"binding plugin or a hook sidecar of a VMI, a network or a QEMU argument of a\n" +
			"domain. The limit is then a lower bound. The XML of the running domain has\n" +
			"most of them.\n\n" +
			"FILE may be - for standard input. With -o json, verdict is limit, unlimited,\n" +
			"none needed or unknown, and unknown lists the missing inputs. limitBytes is\n" +
			"null without a limit, and libvirt's value for unlimited, 9007199254740991, if\n" +
			"unlimited is true.",
		Example: "  virsh dumpxml db | " + p.displayName() + " memlock --domain -\n" +
			"  " + p.displayName() + " memlock --vmi vmi.yaml --kubevirt-version 1.7 --ratio 1.5 " +
			"-o json",
		Args: between(0, 0, "none: files are named by --domain and --vmi"),
	}
	var o memlockOptions
	o.output = formatFlag(cmd, formatText, formatJSON)
	flags := cmd.Flags()
	flags.StringVar(&o.domain, "domain", "", "file with a domain XML")
	flags.StringVar(&o.vmi, "vmi", "", "file with a VirtualMachineInstance or VirtualMachine, in "+
		"YAML or JSON")
	flags.StringVar(&o.version, "kubevirt-version", "",
		"KubeVirt version for --vmi, such as 1.7 or main")
	flags.StringVar(&o.ratio, "ratio", "", "KubeVirt's additionalGuestMemoryOverheadRatio, such "+
		"as 1.5")
	flags.BoolVar(&o.nvlink2, "nvlink2", false, "the pSeries guest has a GPU with an NVLink2 "+
		"bridge")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.memlock(cmd.InOrStdin(), o) }
	return cmd
}

func (p *Program) memlock(in io.Reader, o memlockOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	answer, err := o.compute(in)
	if err != nil {
		return err
	}
	if *o.output == formatJSON {
		return writeJSON(p.Out, newMemlockJSON(answer))
	}
	return writeMemlock(p.Out, answer)
}

// memlockAnswer is the limit that the VM needs, and virt-handler's own limits. They are nil without
// a VMI, and if virt-handler sets none.
type memlockAnswer struct {
	memlock.Result
	own *ownLocks
	sev bool // the limit for the VMI has the memory that SEV pins
}

// ownLocks are virt-handler's limits for libvirt at the start of the VM, and for QEMU later.
type ownLocks struct{ start, running memlock.Result }

// check returns an error for flags that exclude each other.
func (o memlockOptions) check() error {
	switch {
	case o.domain == "" && o.vmi == "":
		return usage("nothing to compute from: want --domain FILE, --vmi FILE, or both")
	case o.domain == stdin && o.vmi == stdin:
		return usage("--domain and --vmi: only one of them may be -")
	case o.vmi != "" && o.version == "":
		return usage("--kubevirt-version is missing: the overhead of --vmi depends on it; want a " +
			"version such as 1.7, or main")
	case o.vmi == "" && o.version != "":
		return usage("--kubevirt-version %q: want it with --vmi only", o.version)
	case o.vmi == "" && o.ratio != "":
		return usage("--ratio %q: want it with --vmi only", o.ratio)
	case o.domain == "" && o.nvlink2:
		return usage("--nvlink2: want it with --domain only")
	}
	return nil
}

// compute computes the limit. With both files, the domain XML shows the devices from plugins and
// hooks of the VMI, and the VMI shows the need of SEV.
func (o memlockOptions) compute(in io.Reader) (memlockAnswer, error) {
	var answer memlockAnswer
	var err error
	if o.vmi != "" {
		if answer, err = o.ofVMI(in); err != nil || o.domain == "" {
			return answer, err
		}
	}
	libvirt, err := o.ofDomain(in, answer.sev)
	if err != nil || o.vmi == "" {
		return memlockAnswer{Result: libvirt}, err
	}
	answer.Result, err = memlock.VEP144(memlock.Demand{
		Implicit: answer.Required, Base: answer.Terms, Libvirt: libvirt}, answer.Reason)
	return answer, err
}

func (o memlockOptions) ofDomain(in io.Reader, countedSEV bool) (memlock.Result, error) {
	text, err := readInput(in, o.domain)
	if err != nil {
		return memlock.Result{}, err
	}
	def, err := domain.Parse(text)
	if err != nil {
		return memlock.Result{}, fmt.Errorf("%s: %w", o.domain, err)
	}
	def.NVLink2 = o.nvlink2
	def.SEV = def.SEV && !countedSEV
	if o.vmi != "" {
		def.DescriptorGroup = "" // virt-handler's, which has the kernel count per process
	}
	result, err := largestLimit(def)
	if err != nil {
		return memlock.Result{}, fmt.Errorf("%s: %w", o.domain, err)
	}
	return result, nil
}

// largestLimit returns libvirt's limit for the domain at its <maxMemory>. A launcher needs it from
// its start, because its limit does not grow with the VM.
func largestLimit(def domain.Definition) (memlock.Result, error) {
	now, err := def.Limit()
	if err != nil {
		return memlock.Result{}, err
	}
	full, err := def.Full().Limit()
	if err != nil || now.Covers(full) {
		return now, err
	}
	now.Unknown = nil // full has them
	full.Reason += fmt.Sprintf("; this is for the full <maxMemory>, and the domain needs %s now",
		now)
	return full, nil
}

func (o memlockOptions) ofVMI(in io.Reader) (answer memlockAnswer, err error) {
	version, err := kubevirt.ParseVersion(o.version)
	if err != nil {
		return answer, usage("--kubevirt-version: %w", err)
	}
	var ratio kubevirt.Ratio
	if o.ratio != "" {
		if ratio, err = kubevirt.ParseRatio(o.ratio); err != nil {
			return answer, usage("--ratio: %w", err)
		}
	}
	text, err := readInput(in, o.vmi)
	if err != nil {
		return answer, err
	}
	vm, err := vmi.Read(text)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", o.vmi, err)
	}
	answer.sev = vm.SEV
	if answer.Result, err = kubevirt.Limit(vm, version, ratio); err != nil {
		return answer, fmt.Errorf("%s: %w", o.vmi, err)
	}
	if answer.own, err = ownLocksOf(vm, version, ratio); err != nil {
		return answer, fmt.Errorf("%s: %w", o.vmi, err)
	}
	return answer, nil
}

func ownLocksOf(vm kubevirt.VM, version kubevirt.Version, ratio kubevirt.Ratio) (*ownLocks, error) {
	start, err := kubevirt.Own(vm, version, ratio, kubevirt.Daemon)
	if err != nil || !start.Required {
		return nil, err
	}
	running, err := kubevirt.Own(vm, version, ratio, kubevirt.QEMU)
	return &ownLocks{start, running}, err
}

// readInput reads a file, or standard input.
func readInput(in io.Reader, file string) ([]byte, error) {
	if file != stdin {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("read %s: larger than %d MiB, the maximum", file, maxInput>>20)
	}
	return text, nil
}
