// Package metrics serves Prometheus metrics, health endpoints and the profiler of the agent.
//
// Labels have few values. Names of pods, namespaces and containers are in Events and in
// `mooring ps`, never in labels.
package metrics
