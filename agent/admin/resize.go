package admin

import (
	"log/slog"
	"net/http"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

const maxResizeRequest = 4 << 10

// Sizes stores the requested sizes of VMs.
type Sizes interface {
	// RequestSize sets the desired size of a pod's VM, or requests a dry run for the size. It
	// returns the pods with this name.
	RequestSize(namespace, name string, size api.Size, dryRun bool) ([]agentapi.ResizedPod, error)
}

func (s *Server) resize(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	request, err := podapi.Decode[agentapi.ResizeRequest](http.MaxBytesReader(w, r.Body,
		maxResizeRequest))
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "resize: %v", err)
		return
	}
	if s.Sizes == nil {
		s.refuse(w, http.StatusNotImplemented, "this agent does not accept resize requests")
		return
	}
	pods, err := s.Sizes.RequestSize(namespace, name, request.Size, request.DryRun)
	switch {
	case err != nil:
		s.refuse(w, http.StatusConflict, "resize of pod %s/%s: %v", namespace, name, err)
	case len(pods) == 0:
		s.refuse(w, http.StatusNotFound, "pod %s/%s has no running launcher on this node",
			namespace,
			name)
	default:
		s.Logger.Info("resize", slog.String("pod", namespace+"/"+name),
			slog.Any("size", request.Size), slog.Bool("dry_run", request.DryRun))
		s.answer(w, http.StatusOK, agentapi.ResizeAnswer{
			Pods: pods, Size: request.Size, DryRun: request.DryRun,
		})
	}
}
