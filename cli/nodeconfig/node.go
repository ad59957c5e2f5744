package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
)

// Node is the node with the containerd and the libvirt to configure.
type Node struct {
	Root       string // mount point of the node's root file system
	Flavour    string // empty: by the existing files
	Containerd string // path of the program on the node; empty: by the flavour
	Policy     string // path of the node policy on the node
	DryRun     bool   // print the change without writing
	Restart    bool   // restart a containerd older than the last change

	Run   Runner
	Print func(line string)
}

func (n *Node) printf(format string, args ...any) { n.Print(fmt.Sprintf(format, args...)) }

// Configure enables the validator, unless the configuration enables the validator already. It
// restores the old configuration if containerd refuses the new one.
func (n *Node) Configure(ctx context.Context) error {
	f, err := n.detect()
	if err != nil {
		return err
	}
	r, err := n.runtime(ctx, f)
	if err != nil {
		return err
	}
	p, err := n.plan(f)
	if err != nil {
		return err
	}
	if p.isEmpty() {
		n.printf("%s: nothing to change", p.path)
		return n.restartIfOutdated(ctx, f, p.path)
	}
	now, err := r.effective(ctx, f.config)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if now.Validator.Enable && !now.Disable && !p.active {
		n.printf("%s enables the validator already: nothing to change", f.config)
		return nil
	}
	if n.DryRun {
		n.printDiff(p.change)
		return n.restart(ctx, f)
	}
	if err := n.enable(ctx, r, f, p); err != nil {
		return err
	}
	n.printf("%s: written", p.path)
	return n.restartIfOutdated(ctx, f, p.path)
}

// enable applies the plan, and restores the file if the validator is still off.
func (n *Node) enable(ctx context.Context, r runtime, f flavour, p plan) error {
	madeBackup, err := n.backUp(p.change)
	if err != nil {
		return err
	}
	err = n.apply(p.change)
	if err == nil {
		err = n.validate(ctx, r, f, p)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s was not changed: %w", p.path, err),
			n.revert(p.change, madeBackup))
	}
	return nil
}

// runtime returns the node's containerd. One without a validator is an error.
func (n *Node) runtime(ctx context.Context, f flavour) (runtime, error) {
	program, err := n.program(f)
	if err != nil {
		return runtime{}, err
	}
	r := runtime{run: n.Run, program: program}
	return r, r.checkVersion(ctx)
}

// plan says how to enable the validator.
type plan struct {
	change

	// rendered is the next configuration that k3s or RKE2 generate, empty for a drop-in.
	rendered string

	// active: the present configuration has a setting of Mooring, perhaps of an older release.
	active bool
}

func (n *Node) plan(f flavour) (plan, error) {
	config, err := n.read(f.config)
	if err != nil {
		return plan{}, err
	}
	if config == nil {
		return plan{}, noConfig(f)
	}
	dir, err := f.dropInDir(*config)
	if err != nil {
		return plan{}, err
	}
	if dir == "" {
		c, err := n.addToTemplate(f)
		return plan{c, withBlock(*config), withoutBlock(*config) != *config}, err
	}
	c, err := n.addDropIn(dir)
	return plan{c, "", !c.foreign}, err
}

func noConfig(f flavour) error {
	if len(f.templates) > 0 {
		return fmt.Errorf("there is no %s: start %s once, it generates the file", f.config, f.name)
	}
	return fmt.Errorf("there is no %s, and without it containerd reads no %s: create it with "+
		"containerd config default >%s", f.config, f.dropIns[0], f.config)
}

// validate asks containerd whether the new configuration enables the validator.
func (n *Node) validate(ctx context.Context, r runtime, f flavour, p plan) error {
	config := f.config
	if p.rendered != "" {
		config = path.Join(path.Dir(f.config), "mooring-check.toml")
		if err := n.write(config, p.rendered, f.config); err != nil {
			return fmt.Errorf("write %s: %w", config, err)
		}
		defer func() { _ = n.remove(config) }()
	}
	nri, err := r.effective(ctx, config)
	switch {
	case err != nil:
		return err
	case nri.Disable:
		return fmt.Errorf("%s: %w", f.config, errDisabled)
	case !nri.Validator.Enable:
		return n.explainDisabled(f)
	}
	return nil
}

// explainDisabled returns the reason why the new file does not enable the validator.
func (n *Node) explainDisabled(f flavour) error {
	config, err := n.read(f.config)
	if err != nil {
		return err
	}
	patterns, err := imports(text(config))
	if err != nil {
		return fmt.Errorf("read %s: %w", f.config, err)
	}
	pattern := f.dropIns[0] + "/*.toml"
	switch {
	case len(f.templates) > 0 || imported(patterns, f.config, f.dropIns[0]+"/"+dropInName):
		return fmt.Errorf("another file that %s imports has enable = false in the table "+
			"default_validator: remove that line", f.config)
	case len(patterns) == 0:
		return fmt.Errorf("%s imports no files: add this line at its top: imports = ['%s']",
			f.config, pattern)
	}
	return fmt.Errorf("%s has imports = %q: want '%s' among them", f.config, patterns, pattern)
}

func (n *Node) restartIfOutdated(ctx context.Context, f flavour, path string) error {
	outdated, err := n.outdated(f, path)
	if err != nil || !outdated {
		return err
	}
	return n.restart(ctx, f)
}

func (n *Node) printDiff(c change) {
	verb := "write"
	if c.after == nil {
		verb = "remove"
	}
	n.printf("would %s %s:", verb, c.path)
	for _, line := range c.diff() {
		n.Print(line)
	}
}

// checkRoot returns an error if Root is no directory.
func (n *Node) checkRoot() error {
	info, err := os.Stat(n.Root)
	if err == nil && !info.IsDir() {
		err = errors.New("want a directory")
	}
	if err != nil {
		return fmt.Errorf("--root %q: %w", n.Root, err)
	}
	return nil
}
