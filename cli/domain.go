package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
)

func (p *Program) domainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "domain",
		Short: "Prepare a domain XML for growth",
		Long:  "Reads a domain XML from a file. Needs no agent, no node and no root.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.domainPrepareCommand())
	return cmd
}

func (p *Program) domainPrepareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prepare [FILE]",
		Short: "Give a domain the headroom to grow while it runs",
		Long: "Reads a domain XML and writes it with headroom up to the capacities: more vCPUs\n" +
			"than at the start, and a maximum memory with a virtio-mem device or with slots\n" +
			"for DIMMs. Existing headroom and everything else stay unchanged. Standard error\n" +
			"lists each change with its reason. A domain that cannot get headroom is refused\n" +
			"with every reason.\n\n" +
			"With --owner, the domain's metadata names the pod that owns the VM. The agent of a\n" +
			"node then ends the VM after its pod, also if both started while it was away.\n\n" +
			"Without FILE, or with -, reads standard input. Without capacities the limits\n" +
			"come from the node policy, if an agent runs here and its policy sets them, or\n" +
			"else from the memory and CPUs of this machine.",
		Example: "  " + p.displayName() + " domain prepare --memory-capacity 16384 " +
			"--cpu-capacity 8 db.xml >grown.xml\n" +
			"  virsh dumpxml --inactive db | " + p.displayName() + " domain prepare | virsh " +
			"define /dev/stdin",
		Args: between(0, 1, "at most one FILE"),
	}
	var o headroom.Options
	var owner string
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&owner, "owner", "",
		"the pod that owns the VM, as `NAMESPACE/NAME/UID`; a launcher knows its own")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file := stdin
		if len(args) > 0 {
			file = args[0]
		}
		source := headroom.Source{Policy: p.capacities}
		source.UseFlags(cmd.Flags())
		if err := p.fillCapacities(cmd.Context(), os.DirFS("/"), &o, source); err != nil {
			return err
		}
		return p.domainPrepare(cmd.InOrStdin(), o, owner, file)
	}
	return cmd
}

// fillCapacities sets the capacities without a flag.
func (p *Program) fillCapacities(
	ctx context.Context, root fs.FS, o *headroom.Options, source headroom.Source,
) (err error) {
	if o.Memory > 0 && o.CPUs > 0 {
		return nil
	}
	var noHost error
	source.Host, noHost = headroom.ReadHost(root)
	host, from, err := source.Read(ctx)
	if err != nil {
		fmt.Fprintf(p.ErrOut, "cannot read the node policy's capacities, using those of this "+
			"machine: %s\n", oneLine(err.Error()))
	}
	if noHost != nil && (o.Memory <= 0 && host.Memory == 0 || o.CPUs <= 0 && host.CPUs == 0) {
		return fmt.Errorf("%w: want --memory-capacity and --cpu-capacity", noHost)
	}
	if len(from) > 0 {
		fmt.Fprintf(p.ErrOut, "capacity of %s: from the node policy\n", strings.Join(from, " and "))
	}
	o.Host = host
	return nil
}

// capacities asks the agent for the node policy's capacities. Without an agent they are empty.
func (p *Program) capacities(ctx context.Context) (podapi.Headroom, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	node, err := p.client().Node(ctx)
	if away, ok := errors.AsType[*admin.NotRunningError](err); ok &&
		errors.Is(away.Err, fs.ErrNotExist) {
		return podapi.Headroom{}, nil
	}
	return node.Headroom, err
}

func (p *Program) domainPrepare(in io.Reader, o headroom.Options, owner, file string) error {
	if err := o.Check(); err != nil {
		return &usageError{err}
	}
	pod, err := parseOwner(owner)
	if err != nil {
		return &usageError{err}
	}
	text, err := readInput(in, file)
	if err != nil {
		return err
	}
	if file == stdin {
		file = "standard input"
	}
	prepared, err := headroom.Prepare(text, o)
	if refused, ok := errors.AsType[*headroom.RefusedError](err); ok {
		for _, reason := range refused.Reasons {
			fmt.Fprintf(p.ErrOut, "refused: %s\n", oneLine(reason))
		}
		return fmt.Errorf("%s: the domain cannot get headroom", file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, note := range prepared.Notes {
		fmt.Fprintln(p.ErrOut, oneLine(note))
	}
	if pod != nil {
		prepared.XML, err = headroom.SetOwner(prepared.XML, *pod)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	_, err = p.Out.Write(prepared.XML)
	return err
}

// parseOwner returns nil without the flag.
func parseOwner(flag string) (*api.Owner, error) {
	if flag == "" {
		return nil, nil
	}
	owner, err := api.ParseOwner(flag)
	if err != nil {
		return nil, fmt.Errorf("--owner: %w", err)
	}
	return &owner, nil
}
