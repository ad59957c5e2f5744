package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// KubeSystem is the group of Kubernetes' own controllers. Exempt it, because they delete the
// content of a namespace in deletion.
const KubeSystem = "system:serviceaccounts:kube-system"

// timeout bounds a check. The API server waits a little longer, so that the client gets a warning
// instead of an error.
const timeout = 3 * time.Second

// Config configures the handlers.
type Config struct {
	// Live reads from the API server. Its scheme needs the types of Kubernetes, KubeVirt and
	// Mooring. Other kinds are read as unstructured objects.
	Live client.Reader

	// Client writes the annotation of a reservation with the target pod's charge.
	Client client.Client

	// Cluster returns the settings of the cluster's KubeVirt. Nil: read with Live for each request.
	Cluster func(context.Context) (virt.Cluster, error)

	// Shim is true if the launcher webhook adds mooring-shim on request.
	Shim bool

	// Quota are the options of the quota controller.
	Quota quota.Options

	// Exempt lists users and groups with requests that always pass: Mooring's own service account
	// and [KubeSystem].
	Exempt []string

	// Observe reports refusals in place of refusing. Nil: refuse.
	Observe *observe.Reporter

	// Logger gets refusals and failed checks.
	Logger *slog.Logger

	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// refusal is a refusal with a reason for the user. Any other error lets the request pass.
type refusal struct {
	why string
	on  *corev1.ObjectReference // of the Event in mode observe; nil: the request's object
}

func (r refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return refusal{why: fmt.Sprintf(format, args...)} }

// guard is a handler. Its judge function returns a refusal, an error, or nil.
type guard struct {
	Config
	name  string
	judge func(context.Context, admission.Request) error
}

func newGuard(
	c Config, name string, judge func(Config, context.Context, admission.Request) error,
) admission.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Cluster == nil {
		c.Cluster = func(ctx context.Context) (virt.Cluster, error) {
			return virt.Read(ctx, c.Live)
		}
	}
	c.Quota = c.Quota.WithDefaults()
	return &guard{c, name, func(ctx context.Context, r admission.Request) error {
		return judge(c, ctx, r)
	}}
}

// Handle implements [admission.Handler].
func (g *guard) Handle(ctx context.Context, r admission.Request) admission.Response {
	if g.exempt(r.UserInfo) {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := g.judge(ctx, r)
	if err == nil {
		return admission.Allowed("")
	}
	log := g.Logger.With("guard", g.name, "namespace", r.Namespace, "name", r.Name, "operation",
		r.Operation, "user", r.UserInfo.Username)
	if no, ok := errors.AsType[refusal](err); ok {
		if g.Observe != nil {
			log.Info("would refuse", "why", no.why)
			return g.Observe.Refusal(r, no.on, no.why)
		}
		log.Info("refused", "why", no.why)
		return admission.Denied(no.why)
	}
	log.Warn("passed a request without a check", "error", err)
	return admission.Allowed("").WithWarnings(fmt.Sprintf(
		"mooring could not check this request against the quota reserved for live migrations: %v",
		err))
}

func (c Config) exempt(user authenticationv1.UserInfo) bool {
	return slices.Contains(c.Exempt, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool {
			return slices.Contains(c.Exempt, group)
		})
}

// decode reads an object of a request. The API server has already validated it.
func decode(raw runtime.RawExtension, into any) error {
	if err := json.Unmarshal(raw.Raw, into); err != nil {
		return fmt.Errorf("reading the request's %T: %w", into, err)
	}
	return nil
}
