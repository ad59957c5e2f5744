package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// maxSeen bounds the recorded content of a cgroup file in bytes.
const maxSeen = 256

// checkFile compares a cgroup file with the granted value.
func (g *Guard) checkFile(l registry.Launcher, name, cgroup string) finding {
	f := finding{setting: name}
	given, ok := l.Given.CgroupFile(name)
	content, err := g.Kernel.ReadCgroup(cgroup, name)
	switch {
	case !ok: // observe mode: record the content only
		f.seen = shown(name, content)
		return f
	case err != nil:
		return f.unreadable(given, err)
	}
	return g.compareFile(f, given, content, cgroup)
}

func (g *Guard) compareFile(f finding, given api.CgroupSetting, content, cgroup string) finding {
	f.seen, f.status = shown(given.File, content), agentapi.StatusApplied
	file, ok := api.LookupCgroupFile(given.File)
	switch {
	case !ok || !file.Shows(content, given.Value):
		return f.differs(fmt.Sprintf("%s was set to %q but the kernel shows %q", given.File,
			given.Quantity(), f.seen))
	case file.Protection:
		return g.checkProtection(f, given, content, cgroup)
	}
	return f
}

func (f finding) differs(message string) finding {
	f.status, f.message = agentapi.StatusDiffers, message
	f.event = &agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonCgroupDiffers,
		Message: message}
	return f
}

func (f finding) unreadable(s api.CgroupSetting, err error) finding {
	if errors.Is(err, fs.ErrNotExist) {
		controller, _, _ := strings.Cut(s.File, ".")
		return f.differs(fmt.Sprintf("%s was set to %q but the container's cgroup has no such "+
			"file: "+
			"the %s controller is not enabled for it, or this kernel lacks the file", s.File,
			s.Quantity(), controller))
	}
	f.status, f.message = agentapi.StatusUnknown, err.Error()
	return f
}

// checkProtection reports memory.min and memory.low without effect. The kernel protects a cgroup no
// more than each of its ancestors (Documentation/admin-guide/cgroup-v2.rst, memory.min: "effective
// min boundary is limited by memory.min values of all ancestor cgroups"). The root has no such file
// and sets no bound.
func (g *Guard) checkProtection(f finding, s api.CgroupSetting, content, cgroup string) finding {
	granted, ok := host.ParseLimit(content)
	for dir := path.Dir(cgroup); ok && dir != "/"; dir = path.Dir(dir) {
		content, err := g.Kernel.ReadCgroup(dir, s.File)
		if err != nil {
			continue // the cgroup vanished, or is no memory cgroup
		}
		if has, ok := host.ParseLimit(content); ok && has < granted {
			f.status = agentapi.StatusIneffective
			f.message = fmt.Sprintf("%s is %s but has no more effect than that of its ancestor "+
				"%s, which is %s",
				s.File, granted, dir, has)
			f.event = &agentapi.Event{Type: agentapi.Warning,
				Reason: agentapi.ReasonCgroupIneffective, Message: f.message}
			return f
		}
	}
	return f
}

// shown returns the content of a cgroup file for people: one line of at most maxSeen bytes, with a
// number of bytes as a quantity.
func shown(file, content string) string {
	line := plaintext.Cut(plaintext.OneLine(strings.TrimSpace(content)), maxSeen)
	return api.CgroupSetting{File: file, Value: line}.Quantity()
}
