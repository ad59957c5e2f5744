package metrics

import (
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/plugin"
)

// startAtZero creates the series of alerts. A counter that appears with its first increment
// would show no increase.
func (m *Metrics) startAtZero() {
	m.eventsAtZero(agentapi.Warning,
		agentapi.ReasonMemlockRefused, agentapi.ReasonCgroupRefused,
		agentapi.ReasonAnnotationInvalid,
		agentapi.ReasonNeighbourMemlock, agentapi.ReasonPodDirFailed, agentapi.ReasonWouldRefuse,
		agentapi.ReasonLimitMissing, agentapi.ReasonLimitAbove,
		agentapi.ReasonCgroupDiffers, agentapi.ReasonCgroupIneffective,
		agentapi.ReasonVMUnattended, agentapi.ReasonOwnerGone, agentapi.ReasonLauncherHung,
		agentapi.ReasonVMKilled, agentapi.ReasonVMStuck, agentapi.ReasonWouldStop,
		agentapi.ReasonGracePeriodRefused, agentapi.ReasonDomainRefused,
		agentapi.ReasonDomainClaimed, agentapi.ReasonLeaseExpired,
		agentapi.ReasonVMShutdown, agentapi.ReasonVMTerminated, // failed actions
		agentapi.ReasonResizeFailed, agentapi.ReasonTrackerFull,
	)
	m.eventsAtZero(agentapi.Normal,
		agentapi.ReasonLimitRepaired, agentapi.ReasonLimitYielded, agentapi.ReasonLimitLowered,
		agentapi.ReasonWouldSet,
		agentapi.ReasonVMStarted, agentapi.ReasonVMGone, agentapi.ReasonStopRequested,
		agentapi.ReasonStopConfirmed,
		agentapi.ReasonVMShutdown, agentapi.ReasonVMTerminated, agentapi.ReasonResizeStarted,
		agentapi.ReasonResizeDone,
	)
	for _, outcome := range []plugin.Outcome{
		plugin.OutcomeSet, plugin.OutcomeYielded, plugin.OutcomeRefused,
		plugin.OutcomeWouldSet, plugin.OutcomeWouldRefuse, plugin.OutcomeFailed,
	} {
		m.decisions.WithLabelValues(string(outcome))
	}
	for _, action := range []string{
		supervisor.ActionShutdown, supervisor.ActionTerminate, supervisor.ActionKill,
		supervisor.ActionConfirmStop,
	} {
		for _, status := range []string{"ok", "error"} {
			m.vmActions.WithLabelValues(action, status)
		}
	}
	for _, hook := range nodeHooks() {
		for _, status := range []string{"ok", "error"} {
			m.nodeHooks.WithLabelValues(hook, status)
		}
	}
}

func (m *Metrics) eventsAtZero(kind agentapi.EventType, reasons ...agentapi.Reason) {
	for _, reason := range reasons {
		m.events.WithLabelValues(string(kind), string(reason))
	}
}
