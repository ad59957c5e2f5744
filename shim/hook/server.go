package hook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook/internal/info"
	"github.com/mooring-vm/mooring/shim/hook/internal/v1alpha3"
)

// The hook points of the sidecar.
const (
	onDefineDomain = "OnDefineDomain"
	shutdown       = "Shutdown"
)

// server answers the calls of all versions.
type server struct {
	info.UnimplementedInfoServer
	v1alpha3.UnimplementedCallbacksServer

	config         Config
	log            *slog.Logger
	shutdownCalled context.Context // ends when KubeVirt calls Shutdown
	callShutdown   context.CancelFunc
}

func newServer(c Config) *server {
	s := &server{config: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler))}
	s.shutdownCalled, s.callShutdown = context.WithCancel(context.Background())
	return s
}

// register adds the services to a gRPC server. An older version of Callbacks has a prefix of the
// methods and the same messages.
func (s *server) register(rpc *grpc.Server) {
	info.RegisterInfoServer(rpc, s)
	v1alpha3.RegisterCallbacksServer(rpc, s)
	for i, version := range versions[:2] {
		older := v1alpha3.Callbacks_ServiceDesc
		older.ServiceName = "kubevirt.hooks." + version + ".Callbacks"
		older.Methods = older.Methods[:i+1]
		rpc.RegisterService(&older, s)
	}
}

// Info announces the hook points. KubeVirt calls Shutdown from v1alpha3 on, and ignores it in older
// versions.
func (s *server) Info(context.Context, *info.InfoParams) (*info.InfoResult, error) {
	r := &info.InfoResult{Name: "mooring-headroom", Versions: versions}
	if s.config.Version != "" {
		r.Versions = []string{s.config.Version}
	}
	r.HookPoints = append(r.HookPoints, &info.HookPoint{Name: onDefineDomain})
	if r.Versions[len(r.Versions)-1] == "v1alpha3" {
		r.HookPoints = append(r.HookPoints, &info.HookPoint{Name: shutdown})
	}
	return r, nil
}

func (s *server) OnDefineDomain(
	ctx context.Context,
	p *v1alpha3.OnDefineDomainParams,
) (*v1alpha3.OnDefineDomainResult, error) {
	v := readVMI(p.GetVmi())
	log := s.log.With("vmi", v.name())
	r, err := s.prepare(ctx, p.GetDomainXML(), v)
	switch {
	case err == nil:
		log.Info("prepared the domain", "changed", r.Changed, "notes", r.Notes)
		return &v1alpha3.OnDefineDomainResult{DomainXML: r.XML}, nil
	case s.config.BestEffort:
		log.Warn("no headroom; the VM starts unchanged", "error", err)
		return &v1alpha3.OnDefineDomainResult{DomainXML: p.GetDomainXML()}, nil
	}
	log.Error("no headroom; the VM does not start", "error", err)
	return nil, status.Error(statusCode(err), "mooring: "+err.Error())
}

func (s *server) prepare(ctx context.Context, text []byte, v vmi) (headroom.Result, error) {
	o := s.config.Options
	o.HugePage = v.hugePage()
	if s.config.Host != nil {
		var err error
		if o.Host, err = s.config.Host(ctx); err != nil {
			return headroom.Result{}, &hostError{err}
		}
	}
	r, err := headroom.Prepare(text, o)
	if err == nil && r.Changed && v.Spec.Domain.CPU.Realtime != nil {
		return headroom.Result{}, &headroom.RefusedError{Reasons: []string{
			"spec.domain.cpu.realtime: new vCPUs and memory would break the guarantees of a " +
				"real-time guest",
		}}
	}
	return r, err
}

// hostError is an error of [Config.Host].
type hostError struct{ error }

func (e *hostError) Unwrap() error { return e.error }

// statusCode maps errors of Host, refusals and malformed XML to gRPC's codes.
func statusCode(err error) codes.Code {
	if _, ok := errors.AsType[*hostError](err); ok {
		return codes.Unavailable
	}
	if _, ok := errors.AsType[*headroom.RefusedError](err); ok {
		return codes.FailedPrecondition
	}
	return codes.InvalidArgument
}

// PreCloudInitIso returns its input. KubeVirt should not call it, as Info does not announce it.
func (s *server) PreCloudInitIso(
	_ context.Context,
	p *v1alpha3.PreCloudInitIsoParams,
) (*v1alpha3.PreCloudInitIsoResult, error) {
	return &v1alpha3.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          p.GetCloudInitData(),
	}, nil
}

// Shutdown ends the sidecar. Otherwise the pod would never complete.
func (s *server) Shutdown(
	context.Context,
	*v1alpha3.ShutdownParams,
) (*v1alpha3.ShutdownResult, error) {
	s.log.Info("the VM has ended")
	s.callShutdown()
	return &v1alpha3.ShutdownResult{}, nil
}
