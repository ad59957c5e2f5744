package agentapi

// Names of Mooring's parts in the field reportingController of Kubernetes Events. Filters of users
// may match on them.
const (
	AgentReporter      = "mooring.dev/agent"
	ControllerReporter = "mooring-quota"
	WebhookReporter    = "mooring-webhooks"
)

// IsReporter reports whether name is that of a part of Mooring.
func IsReporter(name string) bool {
	switch name {
	case AgentReporter, ControllerReporter, WebhookReporter:
		return true
	}
	return false
}
