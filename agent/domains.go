package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// identifyTimeout bounds the requests to libvirt for UUIDs.
const identifyTimeout = 500 * time.Millisecond

// domains implements [supervisor.Domains] for the node's libvirt.
type domains struct {
	records libvirt.Records
	daemon  libvirt.Daemon
	clock   host.Clock
	logger  *slog.Logger

	mu    sync.Mutex
	known map[string]knownRecord // by the name of the domain
	ends  map[string]domainEnd   // by the UUID of the domain
}

// knownRecord is a record, and a time at which it already had its present content.
type knownRecord struct {
	libvirt.Record
	at host.Boottime
}

var _ supervisor.Domains = (*domains)(nil)

// nodeDomains returns the domains of the libvirt in the policy, or nil.
func nodeDomains(p *policy.Policy, logger *slog.Logger) *domains {
	at := p.Lifecycle.Libvirt
	if at == nil {
		return nil
	}
	return &domains{
		records: libvirt.Records{Dir: at.Records}, daemon: libvirt.Daemon{Socket: at.Socket},
		clock: host.LinuxClock{}, logger: logger,
	}
}

// Running implements [supervisor.Domains]. Before the first domain since the node's boot,
// libvirt has no directory for records, but its parent directory exists.
func (d *domains) Running() (running, unreadable []tie.Domain, err error) {
	all, faults, err := d.records.Scan()
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(d.records.Dir))
	}
	if err != nil {
		return nil, nil, err // without a list, the agent keeps the times
	}
	d.remember(all)
	for _, domain := range all {
		running = append(running, tie.Domain{Name: domain.Name, UUID: domain.UUID,
			PID: domain.PID, Owner: domain.Owner})
	}
	return running, d.identify(faults), nil
}

// remember keeps the time of the first read of each record with its present content.
func (d *domains) remember(all []libvirt.Record) {
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	known := make(map[string]knownRecord, len(all))
	for _, record := range all {
		known[record.Name] = knownRecord{record, now}
		if before, ok := d.known[record.Name]; ok && before.Record == record {
			known[record.Name] = before
		}
	}
	d.known = known
}

// Predates implements [supervisor.Domains]. The file's own time is no proof, because the wall clock
// may have been set since.
func (d *domains) Predates(domain tie.Domain, p host.Process) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[domain.Name]
	return ok && known.Domain == libvirtDomain(domain) && p.StartedAfter(known.at)
}

// identify returns the domains with unreadable records. It asks libvirt for their UUIDs, because
// a launcher may have declared one.
func (d *domains) identify(faults map[string]error) (unreadable []tie.Domain) {
	ctx, cancel := context.WithTimeout(context.Background(), identifyTimeout)
	defer cancel()
	for name, fault := range faults {
		id, err := d.daemon.UUID(ctx, name)
		d.logger.Warn("a record of libvirt is unreadable; stops of this domain wait",
			"domain", name, "error", errors.Join(fault, err))
		unreadable = append(unreadable, tie.Domain{Name: name, UUID: id})
	}
	return unreadable
}

// RunBy implements [supervisor.Domains].
func (d *domains) RunBy(domain tie.Domain, args []string) bool {
	return libvirtDomain(domain).RunBy(args)
}

// MayRunBy implements [supervisor.Domains].
func (d *domains) MayRunBy(domain tie.Domain, args []string) bool {
	return libvirtDomain(domain).RunBy(args) || libvirt.IsDaemon(args)
}

// ExcludedBy implements [supervisor.Domains].
func (d *domains) ExcludedBy(domain tie.Domain, args []string) bool {
	return libvirtDomain(domain).ExcludedBy(args)
}

func libvirtDomain(d tie.Domain) libvirt.Domain {
	return libvirt.Domain{Name: d.Name, UUID: d.UUID, PID: d.PID}
}

// Shutdown implements [supervisor.Domains]. It shuts the domain down only while the domain
// still runs in the given process.
func (d *domains) Shutdown(ctx context.Context, domain tie.Domain) error {
	stillRuns := func() error { return d.records.Runs(libvirtDomain(domain)) }
	return shutdownError(domain.Name, d.daemon.Shutdown(ctx, domain.UUID, stillRuns))
}

// shutdownError translates the error of a shutdown request for the supervisor, which repeats a
// request without an answer.
func shutdownError(domain string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, libvirt.ErrNoDomain) || errors.Is(err, libvirt.ErrOtherProcess) {
		err = fmt.Errorf("%w: %w", supervisor.ErrNoDomain, err)
	}
	return fmt.Errorf("ask libvirt to shut domain %s down: %w", domain, err)
}
