package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/plugin"
)

// domainNames knows from libvirt's records which name and which UUID are of one
// running domain.
type domainNames struct {
	records libvirt.Records
	logger  *slog.Logger

	mu    sync.Mutex
	uuids map[string]string // by name
}

var _ plugin.Domains = (*domainNames)(nil)

// newDomainNames reads the records once; nil without a libvirt of the node.
func newDomainNames(p *policy.Policy, logger *slog.Logger) *domainNames {
	if p.Lifecycle.Libvirt == nil {
		return nil
	}
	n := &domainNames{records: libvirt.Records{Dir: p.Lifecycle.Libvirt.Records, Logger: logger}, logger: logger}
	n.read()
	return n
}

// Same implements [plugin.Domains].
func (n *domainNames) Same(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.named(a, b) || n.named(b, a)
}

// named needs the lock.
func (n *domainNames) named(name, uuid string) bool {
	known, ok := n.uuids[name]
	return ok && known == uuid
}

// read reads what libvirt has noted. What cannot be read is not known.
func (n *domainNames) read() {
	all, err := n.records.List()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.logger.Warn("not all names of the domains of the node's libvirt are known", "error", err)
	}
	uuids := map[string]string{}
	for _, d := range all {
		uuids[d.Name] = d.UUID
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uuids = uuids
}

// watch reads again what changes, and tells the supervisor, until ctx is done.
func (n *domainNames) watch(ctx context.Context, tell func()) {
	n.records.Watch(ctx, func() {
		tell()
		n.read()
	})
}
