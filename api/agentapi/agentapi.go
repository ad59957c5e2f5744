// Package agentapi holds what the agent tells on its own socket: HTTP with JSON
// over a unix socket that only root may open. It serves the command line tool,
// and nodes without Kubernetes.
//
//	GET    /v1alpha1/launchers                          []Launcher
//	GET    /v1alpha1/launchers/{namespace}/{pod}        []Launcher, those of one pod; 404 when there is none
//	PUT    /v1alpha1/launchers/{namespace}/{pod}/lease  LeaseRequest -> []Launcher, those that it holds for
//	DELETE /v1alpha1/launchers/{namespace}/{pod}/lease  []Launcher, those that it held for
//	GET    /v1alpha1/events                             stream of Event, one JSON object a line
//	GET    /v1alpha1/node                               Node
//
// The event stream begins with the latest events that the agent still has, in a
// ring of bounded size, and stays open for new ones.
//
// A lease replaces the one that there was, and holds when the answer comes. There
// is 404 for a pod none of whose launchers is followed, 400 for a request that
// cannot be read, and 501 on a node whose kernel cannot track processes.
//
// An answer that is no 200 carries an [Error].
package agentapi

// DefaultSocket is where the agent listens, with mode 0600.
const DefaultSocket = "/run/mooring/agent.sock"

// Paths of the resources. PathLaunchers is also the prefix of one pod's:
// PathLaunchers + "/" + namespace + "/" + name, and SuffixLease ends that of its
// lease.
const (
	PathLaunchers = "/v1alpha1/launchers"
	PathEvents    = "/v1alpha1/events"
	PathNode      = "/v1alpha1/node"
	SuffixLease   = "/lease"
	SuffixResize  = "/resize"
)

// PodRef names a pod. UID tells apart pods that have the same name one after
// the other.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// ContainerRef names a container. ID is the runtime's, which a container has
// from the moment that its creation is asked for. PID is that of its first process
// in the agent's pid namespace, 0 while there is none; in an [Event] it is that of
// the process that the event is about, which can be a VM's.
type ContainerRef struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// Error is the body of an answer that is no 200.
type Error struct {
	Message string `json:"message"`
}
