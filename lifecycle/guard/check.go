package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// finding is the result of checking one setting.
type finding struct {
	setting string
	seen    string
	status  agentapi.Status // empty: unchanged
	message string
	failed  error           // why a repair failed
	event   *agentapi.Event // recorded when the status changes,
	repair  bool            // or after a repair, at most once per repairEvery
}

// repairEvery is the minimum time between Events about repairs of one launcher, in case another
// program keeps changing its limit.
const repairEvery = 10 * time.Minute

// check checks one launcher. requireAll: every process needs the granted memory-lock limit. It
// marks a launcher that is gone as stopped, because a restarted runtime does not report every exit.
func (g *Guard) check(containerID string, requireAll bool) error {
	l, ok := g.Registry.Find(containerID)
	if !ok || l.State != agentapi.StateRunning || l.Container.PID == 0 {
		return fmt.Errorf("container %s does not run: %w", containerID, host.ErrGone)
	}
	log := g.Logger.With("pod", l.Pod.Namespace+"/"+l.Pod.Name, "container", l.Container.Name,
		"pid", l.Container.PID)
	cgroup, err := g.locate(l)
	if err == nil {
		var lock finding
		if lock, err = g.checkSettings(l, cgroup, requireAll, log); err == nil {
			return lock.failed
		}
	}
	if errors.Is(err, host.ErrGone) {
		log.Debug("launcher is gone", "error", err)
		g.Registry.SetState(containerID, agentapi.StateStopped, 0)
		return err
	}
	log.Warn("cannot check launcher", "error", err)
	g.publish(l, cgroup, unknown(l, err), log)
	return err
}

// Gone reports whether the kernel proves that no process of the launcher runs. A failed request is
// no proof.
func (g *Guard) Gone(l registry.Launcher) bool {
	if l.Container.PID == 0 {
		return false
	}
	cgroup, err := g.locate(l)
	if err == nil {
		_, err = g.processes(cgroup)
	}
	return errors.Is(err, host.ErrGone)
}

// Cgroup returns the cgroup of the launcher's container, below the root of the cgroup v2 hierarchy,
// or [host.ErrGone] after the end of the container. It makes a few system calls.
func (g *Guard) Cgroup(l registry.Launcher) (string, error) {
	if l.Cgroup == "" && l.Container.PID == 0 {
		return "", errNotStarted
	}
	return g.locate(l)
}

var errNotStarted = errors.New("the container was not started yet")

// locate returns the container's cgroup. If the first process has exited and its pid belongs to
// another process, the path does not contain the container's ID.
func (g *Guard) locate(l registry.Launcher) (string, error) {
	if l.Cgroup != "" {
		return l.Cgroup, nil
	}
	path, err := g.Kernel.Cgroup(l.Container.PID)
	if err != nil {
		return "", err
	}
	cgroup, ok := host.ContainerCgroup(path, l.Container.ID)
	if !ok {
		return "", fmt.Errorf("process %d is in cgroup %s, not in one of container %s: %w",
			l.Container.PID, path, l.Container.ID, host.ErrGone)
	}
	return cgroup, nil
}

// processes lists the processes of a container. None is ErrGone.
func (g *Guard) processes(cgroup string) ([]host.Process, error) {
	procs, err := g.Kernel.Processes(cgroup)
	if err == nil && len(procs) == 0 {
		err = fmt.Errorf("cgroup %s has no process: %w", cgroup, host.ErrGone)
	}
	return procs, err
}

// checkSettings checks all settings of a launcher. It returns the finding about the memory lock.
func (g *Guard) checkSettings(
	l registry.Launcher, cgroup string, requireAll bool, log *slog.Logger,
) (finding, error) {
	lock, err := g.checkMemlock(l, cgroup, requireAll)
	if err != nil {
		return finding{}, err
	}
	findings := []finding{lock}
	for _, s := range l.Settings {
		if s.Name != agentapi.MemlockSetting {
			findings = append(findings, g.checkFile(l, s.Name, cgroup))
		}
	}
	g.publish(l, cgroup, findings, log)
	return lock, nil
}

func unknown(l registry.Launcher, err error) []finding {
	var findings []finding
	for _, s := range l.Settings {
		findings = append(findings, finding{setting: s.Name, status: agentapi.StatusUnknown,
			message: err.Error()})
	}
	return findings
}

// publish writes findings to the registry and records the Events that are due.
func (g *Guard) publish(l registry.Launcher, cgroup string, findings []finding, log *slog.Logger) {
	news, due := make([]bool, len(findings)), make([]bool, len(findings))
	g.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		now.Cgroup = cgroup
		for i, f := range findings {
			news[i] = f.apply(now)
			due[i] = f.event != nil && f.eventDue(now, news[i])
		}
	})
	for i, f := range findings {
		if f.status != "" {
			g.observe(f.setting, f.status, news[i])
		}
		if due[i] {
			log.Warn(f.message, "reason", f.event.Reason)
			g.record(l, *f.event)
		}
	}
}

// eventDue reports whether the finding's Event is due.
func (f finding) eventDue(l *registry.Launcher, news bool) bool {
	if !f.repair {
		return news
	}
	if !l.RepairReportedAt.IsZero() && time.Since(l.RepairReportedAt) < repairEvery {
		return false
	}
	l.RepairReportedAt = time.Now()
	return true
}

// apply writes the finding into the launcher's setting, and reports whether the status changed.
func (f finding) apply(l *registry.Launcher) bool {
	s := l.Setting(f.setting)
	if s == nil {
		return false
	}
	if f.seen != "" {
		s.Observed = f.seen
	}
	if f.status == "" {
		return false
	}
	news := f.repair || f.status != s.Status
	s.Status, s.Message = f.status, f.message
	return news
}

func (g *Guard) record(l registry.Launcher, e agentapi.Event) {
	e.Time, e.Pod, e.Container = time.Now(), l.Pod, l.Container
	g.Recorder.Record(e)
}
