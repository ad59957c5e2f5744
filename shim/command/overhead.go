package command

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// formulaName selects KubeVirt's formula instead of an amount.
const formulaName = "kubevirt"

// overheadFlags set the memory that the launcher needs beside the guest's memory.
type overheadFlags struct {
	text, ratio, extra string
	guaranteed         bool
}

func (o *overheadFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.text, "overhead", formulaName,
		"memory that the launcher needs beside the guest's: a fixed `quantity`; or\n"+
			"kubevirt:VERSION for that KubeVirt version's overhead at the VM's new size;\n"+
			"kubevirt: its main branch")
	flags.StringVar(&o.ratio, "overhead-ratio", "",
		"KubeVirt's additionalGuestMemoryOverheadRatio, such as 1.5; with --overhead kubevirt")
	flags.StringVar(&o.extra, "overhead-extra", "0",
		"additional `quantity`, such as for exec probes; with --overhead kubevirt")
	flags.BoolVar(&o.guaranteed, "overhead-guaranteed", false,
		"the VM's requests equal its limits; with --overhead kubevirt")
}

// read returns a fixed overhead or a formula.
func (o *overheadFlags) read() (target.Overhead, *target.Formula, error) {
	name, version, versioned := strings.Cut(o.text, ":")
	if name == formulaName {
		f, err := o.formula(version, versioned)
		return nil, f, err
	}
	if flag, value := o.firstFormulaFlag(); flag != "" {
		return nil, nil, fmt.Errorf(
			"--%s %s: allowed with --overhead %s only", flag, value, formulaName,
		)
	}
	bytes, err := api.ParseBytes(o.text)
	if err != nil {
		return nil, nil, fmt.Errorf(
			"--overhead: %w, or %s or %s:VERSION", err, formulaName, formulaName,
		)
	}
	return target.Fixed(uint64(bytes)), nil, nil
}

// firstFormulaFlag returns a flag that is set and needs the formula, or "".
func (o *overheadFlags) firstFormulaFlag() (flag, value string) {
	switch {
	case o.ratio != "":
		return "overhead-ratio", o.ratio
	case o.extra != "0":
		return "overhead-extra", o.extra
	case o.guaranteed:
		return "overhead-guaranteed", "true"
	}
	return "", ""
}

func (o *overheadFlags) formula(version string, versioned bool) (*target.Formula, error) {
	f := &target.Formula{Version: kubevirt.Main(), Guaranteed: o.guaranteed}
	var err error
	if versioned {
		if f.Version, err = kubevirt.ParseVersion(version); err != nil {
			return nil, fmt.Errorf("--overhead %s: %w", o.text, err)
		}
	}
	if o.ratio != "" {
		if f.Ratio, err = kubevirt.ParseRatio(o.ratio); err != nil {
			return nil, fmt.Errorf("--overhead-ratio: %w", err)
		}
	}
	extra, err := api.ParseBytes(o.extra)
	if err != nil {
		return nil, fmt.Errorf("--overhead-extra: %w", err)
	}
	f.Extra = int64(extra)
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("--overhead %s: %w", o.text, err)
	}
	return f, nil
}
