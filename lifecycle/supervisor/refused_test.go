package supervisor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// libvirt cannot shut down the guest after its launcher has ended. It may restart, so the agent
// asks again, unless libvirt has no such domain.
func TestLibvirtRefusesTheShutdown(t *testing.T) {
	refused := errors.New("libvirt at /run/libvirt/libvirt-sock: connection refused")
	noDomain := fmt.Errorf("ask libvirt: %w", supervisor.ErrNoDomain)
	for name, c := range map[string]struct {
		answers []error // then nil
		prepare func(*rig)
		asks    int
		term    time.Duration // after the launcher's end
	}{
		"once": {answers: []error{refused}, asks: 3, term: gracePeriod},
		"always": {
			answers: []error{refused, refused, refused}, asks: 3, term: 20 * time.Second,
		},
		"no such domain": {answers: []error{noDomain}, asks: 1},
		"no record":      {prepare: func(r *rig) { r.domains.Forget(domainUUID) }},
		"record unreadable": {
			prepare: func(r *rig) {
				r.domains.Forget(domainUUID)
				r.domains.Break(tie.Domain{Name: "one"})
			},
			term: 20 * time.Second,
		},
		"record of another domain unreadable": {
			prepare: func(r *rig) {
				r.domains.Forget(domainUUID)
				r.domains.Break(tie.Domain{Name: "two"})
			},
		},
		"no list of records": {
			prepare: func(r *rig) { r.domains.Fail(errNoAnswer) }, term: 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				asks := 0
				r.domains.OnShutdown = func(tie.Domain) error {
					if asks++; asks <= len(c.answers) {
						return c.answers[asks-1]
					}
					return nil
				}
				l := r.launch("vm", withDomain)
				vm := r.startDomain("/machine/x")
				if c.prepare != nil {
					c.prepare(r)
				}
				r.exit(l.process, "SIGKILL")
				if c.term > 0 {
					r.advance(c.term - time.Second)
					r.expectSignals(vm)
				}
				r.advance(2 * time.Second)
				r.expectSignals(vm, "TERM")
				if asks != c.asks {
					t.Errorf("%d requests to libvirt, want %d", asks, c.asks)
				}
			})
		})
	}
}
