package nodehook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/nodehook/v1alpha1"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// connectTimeout bounds the handshake of a silent client.
const connectTimeout = 10 * time.Second

// Config configures a server. Every field is required. The functions may be called concurrently.
type Config struct {
	// Node is the name of this node in Kubernetes.
	Node string

	// Ready reports whether the agent knows the launchers and pods of its node.
	Ready func() bool

	// Launchers lists the launchers of the node.
	Launchers func() []registry.Launcher

	// Instance returns the VirtualMachineInstance that controls a pod.
	Instance func(podUID string) (instance corev1.ObjectReference, ok bool)

	// Require returns nil when a launcher has its granted memory-lock limit.
	Require func(ctx context.Context, containerID string) error

	// Served is called after each call, with its error.
	Served func(hook string, err error)

	Logger *slog.Logger
}

// Server answers virt-handler's calls.
type Server struct {
	v1alpha1.UnimplementedNodeHookServiceServer
	config Config
}

// New returns a server. Serve starts it.
func New(c Config) *Server { return &Server{config: c} }

// Serve answers calls concurrently until ctx ends, and closes the listener. It then cancels calls
// in progress.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// gRPC's default of 4 MiB per message is also virt-handler's limit.
	rpc := grpc.NewServer(grpc.ConnectionTimeout(connectTimeout))
	v1alpha1.RegisterNodeHookServiceServer(rpc, s)
	defer context.AfterFunc(ctx, rpc.Stop)()
	if err := rpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve node hooks on %s: %w", l.Addr(), err)
	}
	return nil
}

// ExecuteNodeHook serves a hook point. It may be repeated. An error makes virt-handler retry, with
// the failure strategy Fail: the VM does not start before.
func (s *Server) ExecuteNodeHook(
	ctx context.Context, r *v1alpha1.ExecuteNodeHookRequest,
) (*v1alpha1.ExecuteNodeHookResponse, error) {
	start, hook := time.Now(), r.GetHookPoint()
	log := s.config.Logger.With("hook", hook)
	i, err := parse(r, s.config.Node)
	if err == nil {
		log = log.With("vmi", i.Metadata.Namespace+"/"+i.Metadata.Name)
		err = s.serve(ctx, hook, i)
	} else {
		err = status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.Served(hook, err)
	if err != nil {
		log.WarnContext(ctx, "a node hook of KubeVirt failed", "error", err)
		return nil, err
	}
	log.InfoContext(ctx, "served a node hook of KubeVirt", "took", time.Since(start))
	return &v1alpha1.ExecuteNodeHookResponse{}, nil
}

// serve repairs the limit of the instance's launcher. The errors are gRPC's.
func (s *Server) serve(ctx context.Context, hook string, i *instance) error {
	if !s.config.Ready() {
		return status.Error(codes.Unavailable, "the agent does not know the launchers and pods of "+
			"its node yet")
	}
	l, err := s.find(hook, i)
	if err != nil {
		return err
	}
	switch {
	case l.Undecided:
		return status.Errorf(codes.Unavailable, "the policy rule of pod %s is unknown until the "+
			"agent knows its service account", l.Pod.Name)
	case l.Refusal != "" && l.Mode == string(policy.Enforce):
		return status.Errorf(codes.FailedPrecondition,
			"the policy refuses the launcher in pod %s: %s", l.Pod.Name, l.Refusal)
	}
	if err := s.config.Require(ctx, l.Container.ID); err != nil {
		return status.Errorf(code(err), "%s setting of pod %s: %v", agentapi.MemlockSetting,
			l.Pod.Name, err)
	}
	return nil
}

// code returns gRPC's code for an error of the guard.
func code(err error) codes.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, host.ErrGone):
		return codes.NotFound
	}
	return codes.FailedPrecondition
}
