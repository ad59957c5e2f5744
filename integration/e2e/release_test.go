package e2e

import (
	"context"
	"os"
	"testing"
)

// Variables name the last release: the directory of its chart, and the tag of its images.
const (
	envLastChart = "MOORING_E2E_LAST_CHART"
	envLastTag   = "MOORING_E2E_LAST_TAG"
)

// release is a version of Mooring: its chart, and the tag of its images.
type release struct{ chart, tag string }

func current() release { return release{chart: chart, tag: os.Getenv(envTag)} }

// last is the last release.
func last(t *testing.T) release {
	t.Helper()
	r := release{chart: os.Getenv(envLastChart), tag: os.Getenv(envLastTag)}
	if r.chart == "" || r.tag == "" {
		t.Skipf("needs the last release in $%s and $%s; `make kind` builds it", envLastChart,
			envLastTag)
	}
	return r
}

// install installs a release in a mode and returns when agents, fences and controller are ready.
func (c *cluster) install(t *testing.T, r release, mode string) {
	t.Helper()
	for _, name := range []string{system, namespace} {
		if err := c.makeNamespace(t.Context(), name, "privileged"); err != nil {
			t.Fatal(err)
		}
	}
	c.upgrade(t, r, append(r.values(mode), "--install")...)
}

// upgrade runs `helm upgrade` and returns when agents, fences and controller are ready.
func (c *cluster) upgrade(t *testing.T, r release, args ...string) {
	t.Helper()
	// An API server on emulated processors may not answer in its own 34 seconds. Helm continues.
	eventually(t, "helm", func(ctx context.Context) error {
		_, err := helm(ctx, append([]string{"upgrade", "mooring", r.chart, "--namespace=" + system},
			args...)...)
		return err
	})
	if err := c.awaitMooring(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// values are the chart's values.
func (r release) values(mode string) []string {
	return []string{
		"--set=mode=" + mode, "--set-file=agent.policy=testdata/policy.yaml",
		"--set=images.registry=" + os.Getenv(envRegistry),
		"--set=images.agent.tag=" + r.tag, "--set=images.controller.tag=" + r.tag,
		"--set=controller.replicas=1", "--set=podDisruptionBudget.enabled=false",
	}
}
