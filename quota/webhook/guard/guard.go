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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// KubeSystem is the group of Kubernetes' own controllers, which should be exempt: they
// delete what is in a namespace that ends.
const KubeSystem = "system:serviceaccounts:kube-system"

// timeout is how long a request is judged. The API server waits a little longer, and a
// warning is better than silence.
const timeout = 3 * time.Second

// Config is what the handlers work with.
type Config struct {
	// Live reads from the API server. Its scheme has Kubernetes', KubeVirt's and Mooring's
	// types; other kinds are read without one.
	Live client.Reader

	// Client writes the annotation of a reservation that says what a target pod is charged.
	Client client.Client

	// Cluster returns what the cluster's KubeVirt is set to. Nil: it is read with Live, for
	// each request.
	Cluster func(context.Context) (virt.Cluster, error)

	// Shim says that the webhook of launchers adds mooring-shim where it is asked for.
	Shim bool

	// Quota are the options of the quota controller.
	Quota quota.Options

	// Exempt are names of users and of groups whose requests pass: Mooring's own service
	// account, and [KubeSystem].
	Exempt []string

	// Logger hears of what is refused, and of what could not be judged.
	Logger *slog.Logger

	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// refusal is why a request is refused, for its user to read. Any other error lets it pass.
type refusal struct{ why string }

func (r refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// guard is a handler. judge returns a refusal, an error, or nil.
type guard struct {
	Config
	name  string
	judge func(context.Context, admission.Request) error
}

func newGuard(c Config, name string, judge func(Config, context.Context, admission.Request) error) admission.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Cluster == nil {
		c.Cluster = func(ctx context.Context) (virt.Cluster, error) { return virt.Read(ctx, c.Live) }
	}
	c.Quota = c.Quota.WithDefaults()
	return &guard{c, name, func(ctx context.Context, r admission.Request) error { return judge(c, ctx, r) }}
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
	log := g.Logger.With("guard", g.name, "namespace", r.Namespace, "name", r.Name, "operation", r.Operation, "user", r.UserInfo.Username)
	if no, ok := errors.AsType[refusal](err); ok {
		log.Info("refused", "why", no.why)
		return admission.Denied(no.why)
	}
	log.Warn("passed without being judged", "error", err)
	return admission.Allowed("").WithWarnings(fmt.Sprintf("mooring has not checked this against what is reserved for live migrations: %v", err))
}

func (c Config) exempt(user authenticationv1.UserInfo) bool {
	return slices.Contains(c.Exempt, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(c.Exempt, group) })
}

// decode reads an object of a request. The API server has checked it against its schema.
func decode(raw runtime.RawExtension, into any) error {
	if err := json.Unmarshal(raw.Raw, into); err != nil {
		return fmt.Errorf("reading the request's %T: %w", into, err)
	}
	return nil
}
