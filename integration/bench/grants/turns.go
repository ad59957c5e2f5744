package grants

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podSpace is the namespace of the created pods.
const podSpace = "pods"

// takeTurns creates pods within a quota, and measures single raises, in random order. No webhook
// sees the pods.
func (b *testBed) takeTurns(ctx context.Context, found *Found) error {
	if err := b.addQuota(ctx, podSpace); err != nil {
		return err
	}
	if err := b.awaitServiceAccount(ctx, podSpace); err != nil {
		return err
	}
	if err := b.awaitQuotas(ctx, roomName, computed); err != nil {
		return err
	}
	for i := range b.Pairs {
		for _, turn := range rand.Perm(2) {
			if turn == 0 {
				took, err := b.createPod(ctx, i)
				if err != nil {
					return err
				}
				found.Pods = append(found.Pods, took.Seconds())
				continue
			}
			took, err := b.migrate(ctx, 1)
			if err != nil {
				return err
			}
			found.Raises = append(found.Raises, took...)
		}
	}
	return nil
}

// createPod returns the time to create a pod: kube-apiserver charges it to the quota.
func (b *testBed) createPod(ctx context.Context, i int) (time.Duration, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: podSpace,
		Name: fmt.Sprintf("pod-%d", i)}}
	pod.Spec = podSpec()
	start := time.Now()
	err := b.api.Create(ctx, pod)
	return time.Since(start), err
}
