package certificates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keeperPeriod is the period of checks of certificates and caBundles.
const keeperPeriod = 10 * time.Second

// Keeper keeps the Secret and the caBundles of webhook configurations. The Secret must exist,
// initially empty, because RBAC cannot allow the creation of a single named object.
type Keeper struct {
	Client client.Client
	Reader client.Reader // without a cache
	Logger *slog.Logger

	Secret     types.NamespacedName
	Names      []string // DNS names of the server
	Validating string   // name of the ValidatingWebhookConfiguration
	Mutating   string   // name of the MutatingWebhookConfiguration
	Now        func() time.Time

	lastError string // already logged
}

// NeedLeaderElection returns true: one keeper works at a time.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start runs until ctx ends. It logs each new error once and retries.
func (k *Keeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) { k.logError(k.Keep(ctx)) }, keeperPeriod)
	return nil
}

func (k *Keeper) logError(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != k.lastError && err != nil {
		k.Logger.Error("cannot keep the certificates of the webhooks", "error", err)
	}
	k.lastError = now
}

// Keep checks once and writes the necessary changes. It skips missing webhook configurations.
func (k *Keeper) Keep(ctx context.Context) error {
	bundle, err := k.keepSecret(ctx)
	if err != nil {
		return fmt.Errorf("secret %s: %w", k.Secret, err)
	}
	validating, mutating := &admissionv1.ValidatingWebhookConfiguration{},
		&admissionv1.MutatingWebhookConfiguration{}
	if err := k.keepBundle(ctx, k.Validating, validating, bundle); err != nil {
		return fmt.Errorf("ValidatingWebhookConfiguration %s: %w", k.Validating, err)
	}
	if err := k.keepBundle(ctx, k.Mutating, mutating, bundle); err != nil {
		return fmt.Errorf("MutatingWebhookConfiguration %s: %w", k.Mutating, err)
	}
	return nil
}

// clientConfigs returns the client configurations of all webhooks.
func clientConfigs(o client.Object) (all []admissionv1.WebhookClientConfig) {
	switch o := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			all = append(all, o.Webhooks[i].ClientConfig)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			all = append(all, o.Webhooks[i].ClientConfig)
		}
	}
	return all
}

// keepSecret renews the Secret if necessary and returns the bundle.
func (k *Keeper) keepSecret(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := k.Reader.Get(ctx, k.Secret, secret); err != nil {
		return nil, err
	}
	data, err := Renew(secret.Data, k.Names, k.Now())
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data[BundleKey], secret.Data[BundleKey]) &&
		bytes.Equal(data[ServedKey], secret.Data[ServedKey]) {
		return data[BundleKey], nil
	}
	secret.Data = data
	if err := k.Client.Update(ctx, secret); err != nil {
		return nil, err
	}
	k.Logger.Info("renewed the certificates of the webhooks", "secret", k.Secret.String())
	return data[BundleKey], nil
}

// keepBundle writes the bundle into a configuration that has another one. The patch tests the
// resourceVersion, because it addresses webhooks by index.
func (k *Keeper) keepBundle(
	ctx context.Context, name string, o client.Object, bundle []byte,
) error {
	if err := k.Reader.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	patch := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion",
		"value": o.GetResourceVersion()}}
	for i, config := range clientConfigs(o) {
		if !bytes.Equal(config.CABundle, bundle) {
			path := fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i)
			patch = append(patch, map[string]any{"op": "add", "path": path, "value": bundle})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	err = k.Client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, text))
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // concurrent change
		return fmt.Errorf("changed meanwhile: %w", err)
	}
	return err
}
