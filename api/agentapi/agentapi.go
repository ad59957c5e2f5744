// Package agentapi is the API of the agent for the command line tool and for nodes without
// Kubernetes: HTTP with JSON over a unix socket that only root may open.
//
//	GET    /v1alpha1/launchers                           []Launcher
//	GET    /v1alpha1/launchers/{namespace}/{pod}         []Launcher of one pod; 404 if there is none
//	PUT    /v1alpha1/launchers/{namespace}/{pod}/lease   LeaseRequest -> []Launcher with the lease
//	DELETE /v1alpha1/launchers/{namespace}/{pod}/lease   []Launcher that had the lease
//	PUT    /v1alpha1/launchers/{namespace}/{pod}/resize  ResizeRequest -> ResizeAnswer
//	GET    /v1alpha1/events                              stream of Event, one JSON object per line
//	GET    /v1alpha1/node                                Node
//
// The event stream begins with the latest events from a ring of bounded size, and stays open for
// new ones. With the query "latest" it ends after the latest events.
//
// A lease replaces an earlier one, and holds when the answer arrives. The status is 404 for a pod
// without a tracked launcher, 400 for an unreadable request, and 501 on a node with a kernel that
// cannot track processes.
//
// An answer with a status other than 200 carries an [Error].
package agentapi

// DefaultSocket is where the agent listens, with mode 0600.
const DefaultSocket = "/run/mooring/agent.sock"

// MountSource is the source of the file systems that Mooring mounts on a node.
const MountSource = "mooring"

// Paths of the resources. The path of one pod is PathLaunchers + "/" + namespace + "/" + name.
// SuffixLease and SuffixResize end the paths of its lease and its resize.
const (
	PathLaunchers = "/v1alpha1/launchers"
	PathEvents    = "/v1alpha1/events"
	PathNode      = "/v1alpha1/node"
	SuffixLease   = "/lease"
	SuffixResize  = "/resize"

	QueryLatest = "latest"
)

// PodRef names a pod. UID distinguishes pods that have had the same name.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// ContainerRef names a container. ID is the runtime's; a container has it from the request for its
// creation on. PID is the container's first process in the agent's pid namespace, or 0 if there is
// none. In an [Event] it is the process of the event, such as a VM process.
type ContainerRef struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// Error is the body of each answer with a status other than 200.
type Error struct {
	Message string `json:"message"`
}
