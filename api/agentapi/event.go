package agentapi

import (
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// EventType is Normal or Warning, as in Kubernetes.
type EventType string

// The types of an event.
const (
	Normal  EventType = "Normal"
	Warning EventType = "Warning"
)

// Reason is why an event was emitted: a stable word that alerts may match on.
type Reason string

// The reasons of events.
const (
	ReasonMemlockRefused     Reason = "MemlockRefused"     // the policy does not allow the memory lock
	ReasonCgroupRefused      Reason = "CgroupRefused"      // the policy does not allow the cgroup file
	ReasonGracePeriodRefused Reason = "GracePeriodRefused" // the policy does not allow so long a grace period
	ReasonAnnotationInvalid  Reason = "AnnotationInvalid"  // an annotation cannot be read
	ReasonLimitMissing       Reason = "LimitMissing"       // a process has less than it was given
	ReasonLimitRepaired      Reason = "LimitRepaired"      // the same, set right by the agent
	ReasonLimitYielded       Reason = "LimitYielded"       // somebody else had set the limit already
	ReasonCgroupDiffers      Reason = "CgroupDiffers"      // a cgroup file shows something else than was given
	ReasonCgroupIneffective  Reason = "CgroupIneffective"  // a cgroup file shows it, but it has no effect
	ReasonWouldRefuse        Reason = "WouldRefuse"        // observe mode: would have been refused
	ReasonWouldSet           Reason = "WouldSet"           // observe mode: would have been set
	ReasonNeighbourMemlock   Reason = "NeighbourMemlock"   // another NRI plugin is asked to set the same limit
	ReasonPodDirFailed       Reason = "PodDirFailed"       // the pod's directory cannot be made

	ReasonVMStarted     Reason = "VMStarted"     // a VM process of the launcher started
	ReasonVMGone        Reason = "VMGone"        // it has ended
	ReasonVMUnattended  Reason = "VMUnattended"  // it started without a live pod or heartbeat
	ReasonOwnerGone     Reason = "OwnerGone"     // the launcher has ended, and left a VM process behind
	ReasonLauncherHung  Reason = "LauncherHung"  // the launcher lives, its heartbeat does not
	ReasonStopRequested Reason = "StopRequested" // the pod asks for its VM to be stopped
	ReasonStopConfirmed Reason = "StopConfirmed" // the pod is told that its VM is gone
	ReasonVMShutdown    Reason = "VMShutdown"    // the guest is asked to shut down
	ReasonVMTerminated  Reason = "VMTerminated"  // SIGTERM was sent
	ReasonVMKilled      Reason = "VMKilled"      // SIGKILL was sent
	ReasonVMStuck       Reason = "VMStuck"       // it does not end after SIGKILL
	ReasonWouldStop     Reason = "WouldStop"     // observe mode: would have been stopped
	ReasonDomainRefused Reason = "DomainRefused" // the policy does not allow the declared domain
	ReasonDomainClaimed Reason = "DomainClaimed" // another pod has declared the same domain
	ReasonLeaseExpired  Reason = "LeaseExpired"  // the lease that held back a stop has ended

	ReasonResizeStarted Reason = "ResizeStarted" // a running VM is being made larger or smaller
	ReasonResizeDone    Reason = "ResizeDone"    // it is as it is wanted
	ReasonResizeFailed  Reason = "ResizeFailed"  // it is not, and the message says why
)

// Event is something that happened to a launcher.
type Event struct {
	Time      time.Time    `json:"time"`
	Type      EventType    `json:"type"`
	Reason    Reason       `json:"reason"`
	Message   string       `json:"message"`
	Pod       PodRef       `json:"pod"`
	Container ContainerRef `json:"container"`

	// Desired is the size that the resize in question was to reach; nil: the event is about no
	// resize, or its size is unknown.
	Desired *DesiredSize `json:"wanted,omitempty"`

	// Report is what the pod had said of the resize by then, with at most [MaxEventReport]
	// bytes as JSON; nil: it is about none.
	Report *podapi.Report `json:"report,omitempty"`
}

// DesiredKey is the annotation of a Kubernetes Event with its [DesiredSize] as JSON, for
// programs. The Event's message is for people.
const DesiredKey = "wanted.event.mooring.dev"

// ReportKey is the annotation of a Kubernetes Event with its [podapi.Report], as JSON: the
// pod's own words. Of an Event that was counted it is the latest.
const ReportKey = "report.event.mooring.dev"

// MaxEventReport bounds the report of an event, in bytes as JSON. A report whose lists are
// empty is never longer.
const MaxEventReport = 8 << 10

// DesiredSize is the size that a resize was to reach.
type DesiredSize struct {
	Generation uint64 `json:"generation"` // as in [podapi.Desired]
	api.Size
}
