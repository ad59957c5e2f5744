package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// domains implements [supervisor.Domains] for the node's libvirt.
type domains struct {
	records libvirt.Records
	daemon  libvirt.Daemon
}

var _ supervisor.Domains = (*domains)(nil)

// nodeDomains returns the domains of the libvirt in the policy, or nil.
func nodeDomains(p *policy.Policy) *domains {
	at := p.Lifecycle.Libvirt
	if at == nil {
		return nil
	}
	return &domains{
		records: libvirt.Records{Dir: at.Records}, daemon: libvirt.Daemon{Socket: at.Socket},
	}
}

// Running implements [supervisor.Domains]. Before the first domain since the node's boot,
// libvirt has no directory for records, but its parent directory exists.
func (d *domains) Running() ([]tie.Domain, error) {
	all, err := d.records.List()
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(d.records.Dir))
	}
	running := make([]tie.Domain, 0, len(all))
	for _, domain := range all {
		running = append(running, tie.Domain{Name: domain.Name, UUID: domain.UUID, PID: domain.PID})
	}
	return running, err
}

// RunBy implements [supervisor.Domains].
func (d *domains) RunBy(domain tie.Domain, args []string) bool {
	return libvirtDomain(domain).RunBy(args)
}

func libvirtDomain(d tie.Domain) libvirt.Domain {
	return libvirt.Domain{Name: d.Name, UUID: d.UUID, PID: d.PID}
}

// Shutdown implements [supervisor.Domains]. It shuts the domain down only while the domain
// still runs in the given process.
func (d *domains) Shutdown(ctx context.Context, domain tie.Domain) error {
	stillRuns := func() error { return d.records.Runs(libvirtDomain(domain)) }
	if err := d.daemon.Shutdown(ctx, domain.UUID, stillRuns); err != nil {
		return fmt.Errorf("ask libvirt to shut domain %s down: %w", domain.Name, err)
	}
	return nil
}
