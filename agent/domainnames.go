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

// domainNames maps the names of running domains to their UUIDs. It reads them from libvirt's
// records.
type domainNames struct {
	records libvirt.Records
	logger  *slog.Logger

	mu    sync.Mutex
	uuids map[string]string // by name
}

var _ plugin.Domains = (*domainNames)(nil)

// newDomainNames reads the records once. It returns nil without a libvirt of the node.
func newDomainNames(p *policy.Policy, logger *slog.Logger) *domainNames {
	if p.Lifecycle.Libvirt == nil {
		return nil
	}
	records := libvirt.Records{Dir: p.Lifecycle.Libvirt.Records, Logger: logger}
	n := &domainNames{records: records, logger: logger}
	n.refresh()
	return n
}

// Same implements [plugin.Domains].
func (n *domainNames) Same(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hasUUID(a, b) || n.hasUUID(b, a)
}

// hasUUID must be called with the lock.
func (n *domainNames) hasUUID(name, uuid string) bool {
	known, ok := n.uuids[name]
	return ok && known == uuid
}

// refresh reads libvirt's records. Domains with unreadable records are left out.
func (n *domainNames) refresh() {
	all, err := n.records.List()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.logger.Warn("some records of the node's libvirt are unreadable", "error", err)
	}
	uuids := map[string]string{}
	for _, d := range all {
		uuids[d.Name] = d.UUID
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uuids = uuids
}

// watch calls changed and reads the records after each change, until ctx ends.
func (n *domainNames) watch(ctx context.Context, changed func()) {
	n.records.Watch(ctx, func() {
		changed()
		n.refresh()
	})
}
