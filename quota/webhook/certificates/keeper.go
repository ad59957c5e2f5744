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

// keeperPeriod is how often certificates and caBundles are looked at.
const keeperPeriod = 10 * time.Second

// Keeper keeps the Secret and the caBundles of webhook configurations. The Secret has to be
// there, with nothing in it at first: to create one cannot be allowed for one name alone.
type Keeper struct {
	Client client.Client
	Reader client.Reader // without a cache
	Logger *slog.Logger

	Secret     types.NamespacedName
	Names      []string // to serve under
	Validating string   // name of the ValidatingWebhookConfiguration
	Mutating   string   // name of the MutatingWebhookConfiguration
	Now        func() time.Time

	trouble string // what was told last
}

// NeedLeaderElection says that one keeper works at a time.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start keeps until ctx ends. What fails is told once, and tried again.
func (k *Keeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) { k.tell(k.Keep(ctx)) }, keeperPeriod)
	return nil
}

func (k *Keeper) tell(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != k.trouble && err != nil {
		k.Logger.Error("the certificates of the webhooks cannot be kept", "error", err)
	}
	k.trouble = now
}

// Keep looks once, and writes what has to change. A webhook configuration that is not there
// is none to be written.
func (k *Keeper) Keep(ctx context.Context) error {
	bundle, err := k.keepSecret(ctx)
	if err != nil {
		return fmt.Errorf("secret %s: %w", k.Secret, err)
	}
	validating, mutating := &admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}
	if err := k.keepBundle(ctx, k.Validating, validating, bundle); err != nil {
		return fmt.Errorf("ValidatingWebhookConfiguration %s: %w", k.Validating, err)
	}
	if err := k.keepBundle(ctx, k.Mutating, mutating, bundle); err != nil {
		return fmt.Errorf("MutatingWebhookConfiguration %s: %w", k.Mutating, err)
	}
	return nil
}

// clientConfigs are those of a configuration's webhooks.
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

// keepSecret returns the bundle.
func (k *Keeper) keepSecret(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := k.Reader.Get(ctx, k.Secret, secret); err != nil {
		return nil, err
	}
	data, err := Renew(secret.Data, k.Names, k.Now())
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data[BundleKey], secret.Data[BundleKey]) && bytes.Equal(data[ServedKey], secret.Data[ServedKey]) {
		return data[BundleKey], nil
	}
	secret.Data = data
	if err := k.Client.Update(ctx, secret); err != nil {
		return nil, err
	}
	k.Logger.Info("the certificates of the webhooks are new", "secret", k.Secret.String())
	return data[BundleKey], nil
}

// keepBundle writes the bundle where a configuration has another one. The patch tests
// the resourceVersion, so that it finds the webhooks that it is for.
func (k *Keeper) keepBundle(ctx context.Context, name string, o client.Object, bundle []byte) error {
	if err := k.Reader.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	patch := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()}}
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
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // somebody was faster
		return fmt.Errorf("changed meanwhile: %w", err)
	}
	return err
}
