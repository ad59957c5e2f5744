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

// Reason is the cause of an event: a stable word for alerts.
type Reason string

// The reasons of events.
const (
	// the policy does not allow the memory lock
	ReasonMemlockRefused Reason = "MemlockRefused"
	// the policy does not allow the cgroup file
	ReasonCgroupRefused Reason = "CgroupRefused"
	// the policy does not allow so long a grace period
	ReasonGracePeriodRefused Reason = "GracePeriodRefused"
	ReasonAnnotationInvalid  Reason = "AnnotationInvalid" // an annotation cannot be read
	// a process has less than the agent gave it
	ReasonLimitMissing  Reason = "LimitMissing"
	ReasonLimitRepaired Reason = "LimitRepaired" // the agent repaired a missing limit
	ReasonLimitYielded  Reason = "LimitYielded"  // the limit was high enough already
	ReasonLimitLowered  Reason = "LimitLowered"  // the runtime's limit is beyond the policy
	// another program raised a limit beyond the policy
	ReasonLimitAbove Reason = "LimitAbove"
	// a cgroup file shows another value than the agent set
	ReasonCgroupDiffers Reason = "CgroupDiffers"
	// a cgroup file shows the value without effect
	ReasonCgroupIneffective Reason = "CgroupIneffective"
	ReasonWouldRefuse       Reason = "WouldRefuse" // observe mode: enforce mode would refuse
	// observe mode: enforce mode would set a limit
	ReasonWouldSet Reason = "WouldSet"
	// another NRI plugin has a request for the same limit
	ReasonNeighbourMemlock Reason = "NeighbourMemlock"
	ReasonPodDirFailed     Reason = "PodDirFailed" // the agent cannot make the pod's directory

	ReasonVMStarted Reason = "VMStarted" // a VM process of the launcher started
	ReasonVMGone    Reason = "VMGone"    // a VM process has ended
	// a VM process started without a live pod or a fresh heartbeat
	ReasonVMUnattended Reason = "VMUnattended"
	// the launcher has ended, and its VM process is an orphan
	ReasonOwnerGone     Reason = "OwnerGone"
	ReasonLauncherHung  Reason = "LauncherHung"  // the launcher lives without a heartbeat
	ReasonStopRequested Reason = "StopRequested" // the pod asks for the stop of its VM
	// the agent confirms to the pod that its VM is gone
	ReasonStopConfirmed Reason = "StopConfirmed"
	ReasonVMShutdown    Reason = "VMShutdown"   // the agent asks the guest to shut down
	ReasonVMTerminated  Reason = "VMTerminated" // the agent sent SIGTERM
	ReasonVMKilled      Reason = "VMKilled"     // the agent sent SIGKILL
	ReasonVMStuck       Reason = "VMStuck"      // a stop waits for a process or for libvirt
	// observe mode: enforce mode would stop a VM process
	ReasonWouldStop     Reason = "WouldStop"
	ReasonDomainRefused Reason = "DomainRefused" // the policy does not allow the declared domain
	ReasonDomainClaimed Reason = "DomainClaimed" // another pod has declared the same domain
	ReasonLeaseExpired  Reason = "LeaseExpired"  // the lease that prevented a stop has ended
	ReasonTrackerFull   Reason = "TrackerFull"   // processes of the launcher have no room

	ReasonResizeStarted Reason = "ResizeStarted" // a resize of a running VM has started
	ReasonResizeDone    Reason = "ResizeDone"    // the VM has the desired size
	ReasonResizeFailed  Reason = "ResizeFailed"  // the VM has another size; the message says why
)

// Event is an event of a launcher or of the node.
type Event struct {
	Time      time.Time    `json:"time"`
	Type      EventType    `json:"type"`
	Reason    Reason       `json:"reason"`
	Message   string       `json:"message"`
	Pod       PodRef       `json:"pod"`
	Container ContainerRef `json:"container"`

	// Desired is the size that the resize was to reach; nil: the event is not about a resize, or
	// the size is unknown.
	Desired *DesiredSize `json:"wanted,omitempty"`

	// Report is the pod's report of the resize at that time, with at most [MaxEventReport] bytes of
	// JSON; nil: the event is not about a resize.
	Report *podapi.Report `json:"report,omitempty"`
}

// DesiredKey is the annotation of a Kubernetes Event with its [DesiredSize] as JSON, for programs.
// The Event's message is for people.
const DesiredKey = "wanted.event.mooring.dev"

// ReportKey is the annotation of a Kubernetes Event with its [podapi.Report] as JSON: the pod's own
// words. In a series it is the latest report.
const ReportKey = "report.event.mooring.dev"

// MaxEventReport bounds the report of an event, in bytes of JSON. A report with empty lists always
// fits.
const MaxEventReport = 8 << 10

// DesiredSize is the size that a resize was to reach.
type DesiredSize struct {
	Generation uint64 `json:"generation"` // as in [podapi.Desired]
	api.Size
}
