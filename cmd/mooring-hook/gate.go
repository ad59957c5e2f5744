package main

import (
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const gateHelp = `Answers libvirt as a hook of its QEMU driver. It refuses the start of a domain
with a name in the node policy's lifecycle.libvirt.requireOwner, unless a pod with an active
launcher declares the domain. libvirt runs a copy of this program, installed by
mooring node configure, and passes the domain's definition on standard input.

  mooring-hook gate [flags] DOMAIN OPERATION SUBOPERATION EXTRA
`

// gate returns an error for a refusal.
func (p program) gate(args []string) error {
	f := p.flags(gateHelp)
	config := f.String("config", gate.ConfigPath, "configuration `file` of the installed hook")
	if err := p.parse(f, args); err != nil {
		return err
	}
	return gate.Hook{Config: *config}.Call(f.Args(), os.Stdin)
}

// commandOf returns the arguments of a command line, with the name of the command. libvirt calls
// the installed hook with its own arguments only.
func commandOf(argv []string) []string {
	if filepath.Base(argv[0]) == filepath.Base(gate.HookPath) {
		return append([]string{"gate", "--"}, argv[1:]...)
	}
	return argv[1:]
}
