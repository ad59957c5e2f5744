# What is made lands in bin/ and artefacts/, or in the user's cache folder.
# hack/setup gets what a step needs; hack/env.sh finds the Go that it got.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export MOORING_ARTEFACTS ?= $(CURDIR)/artefacts

GO   := . hack/env.sh && go
TOOL := $(GO) tool -modfile=tools/go.mod
TEST := mkdir -p "$$MOORING_ARTEFACTS" && $(TOOL) gotestsum --format=pkgname --format-hide-empty-pkg --jsonfile="$$MOORING_ARTEFACTS"

# Recipes put the lists into a variable first: only then a failing go list fails them.
NODE_TESTS    := /hack/throwaway$$|/integration/suite$$
CLUSTER_TESTS := /integration/(deploy|kube|kubevirt|quota)$$
UNIT        = $$(go list ./... | grep -vE '$(NODE_TESTS)|$(CLUSTER_TESTS)')
SUITES     ?= $$(go list ./... | grep -E '$(NODE_TESTS)')
CLUSTER    ?= $$(go list ./... | grep -E '$(CLUSTER_TESTS)')
# Unit tests that see more of a real system in the node than on most machines.
IN_NODE    ?= ./deploy/systemd ./agent ./agent/libvirt ./lifecycle
BENCH      ?= ./bpf ./lifecycle/... ./memlock/... ./plugin/...
COUNT      ?= 6
BENCHTIME  ?= 1s
RESULT     ?= $(MOORING_ARTEFACTS)/benchmarks.json
# Whether everything works, in seconds; the figures are worth nothing.
QUICK      ?= $(if $(filter 1x,$(BENCHTIME)),--quick)
# Of libvirt and QEMU: the machine's, and those of Debian releases.
VERSIONS   ?= host trixie forky
STEPS      ?= 2000
SEED       ?= 1
# In runs, as with -fuzztime: a duration sometimes ends in "context deadline exceeded".
FUZZTIME   ?= 200000x
# Of images: what is put before their names, their tag, and which; all without it.
REGISTRY   ?=
TAG        ?= latest
ONLY       ?=

.PHONY: help run node check test unit suites cluster units-in-node suites-in-node conformance torture matrix bench fuzz build images chart generate lint verify clean
help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 13

run: ## show on a throw-away node what Mooring does
	@hack/setup build node
	@$(GO) build -o bin/demo ./integration/demo
	@hack/node run --reuse -- bin/demo

node: ## a shell in the throw-away node
	@hack/node shell

check: ## the quick tier: builds, vets and runs the unit tests, without a node
	@hack/setup test
	$(GO) build ./... && go vet ./...
	. hack/env.sh && ! "$$(go env GOROOT)"/bin/gofmt -l . | grep .
	. hack/env.sh && packages="$(UNIT)" && $(TEST)/check.json -- -race -short -timeout=5m $$packages

test: unit suites cluster ## every test, also those on a throw-away node

unit:
	@hack/setup test
	. hack/env.sh && packages="$(UNIT)" && $(TEST)/unit.json -- -race -timeout=10m $$packages

suites:
	hack/node run -- $(MAKE) units-in-node suites-in-node

# With a real control plane on this machine, and no node.
cluster:
	@hack/setup test
	. hack/env.sh && packages="$(CLUSTER)" && $(TEST)/cluster.json -- -count=1 -timeout=60m -p=1 $$packages

units-in-node:
	$(TEST)/units-in-node.json -- -count=1 -timeout=10m -exec="'$(CURDIR)/hack/on-node'" $(IN_NODE)

suites-in-node:
	. hack/env.sh && packages="$(SUITES)" && $(TEST)/suites.json -- -count=1 -timeout=60m -p=1 $$packages

conformance: ## the tests with libvirt and QEMU on VERSIONS of them: host, trixie and forky
	@hack/setup test node
	@$(MAKE) --no-print-directory --keep-going $(VERSIONS:%=conformance-on-%)
	@cd "$$MOORING_ARTEFACTS" && grep -oE 'libvirt [0-9]+, QEMU [0-9]+, unplugs vCPUs: (true|false)' $(VERSIONS:%=conformance-%.json) | sort -u
	$(if $(filter forky,$(VERSIONS)),@grep -q 'unplugs vCPUs: true' "$$MOORING_ARTEFACTS"/conformance-forky.json || { echo 'nothing has unplugged vCPUs' && false; })
	@cd "$$MOORING_ARTEFACTS" && ! sed -nE 's/.*"Action":"(pass|skip)","Package":"([^"]*)","Test":"([^"]*)".*/\1 \2.\3/p' $(VERSIONS:%=conformance-%.json) | \
		awk '{seen[$$2] = seen[$$2] $$1} END {for (t in seen) if (seen[t] !~ /pass/) print "skipped on each version: " t}' | grep .

# The packages whose tests start a libvirtd, and the suite on the fake.
conformance-on-%:
	. hack/env.sh && root= && if [[ $* != host ]]; then root=$$(go run ./hack/libvirt-root $*); fi && \
		packages=$$(grep -rl --include='*_test.go' '/libvirttest"' . | xargs -n1 dirname | sort -u) && \
		export MOORING_CI_REQUIRE=1 MOORING_LIBVIRT_ROOT="$$root" && \
		$(TEST)/conformance-$*.json -- -count=1 -timeout=30m -p=1 $$packages ./shim/virt/virttest

torture: ## STEPS random faults on a node with launchers and VMs; SEED chooses them
	@hack/setup build node
	$(GO) version && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o bin/ ./integration/torture
	hack/node run -- bin/torture --steps=$(STEPS) --seed=$(SEED)

matrix: ## the core on other runtimes and kernels, into docs/reference/compatibility.md; CELL=NAME runs one
	@hack/setup build node
	@$(GO) run ./integration/matrix $(CELL)

bench: ## benchmarks; BASE=FILE compares with another bench.txt, RESULT=integration/bench/benchmarks.json publishes
	@hack/setup build test && mkdir -p "$$MOORING_ARTEFACTS"
	$(GO) test -run='^$$' -bench=. -benchmem -benchtime=$(BENCHTIME) -count=$(COUNT) $(BENCH) | tee "$$MOORING_ARTEFACTS"/bench.txt
	$(TOOL) benchstat $(BASE) "$$MOORING_ARTEFACTS"/bench.txt
	. hack/env.sh && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ ./cmd/mooring-agent ./cmd/mooring-controller ./integration/bench
	bin/bench machine $(QUICK) --result="$(RESULT)"
	bin/bench quota $(QUICK) --result="$(RESULT)"
	rm -f "$$MOORING_ARTEFACTS"/resize.json
	. hack/env.sh && $(if $(QUICK),MOORING_QUICK=1) MOORING_SAMPLES="$$MOORING_ARTEFACTS"/resize.json go test -run='^$$' -bench=Resize -benchtime=1x ./shim/coordinator
	@if [[ -e "$$MOORING_ARTEFACTS"/resize.json ]]; then bin/bench resize --samples="$$MOORING_ARTEFACTS"/resize.json --result="$(RESULT)"; \
		else echo 'resizes are left out: they take libvirtd and QEMU'; fi
	$(if $(QUICK),@echo 'the node is left out: BENCHTIME is 1x',hack/node run -- bin/bench node --result="$(RESULT)")

fuzz: ## each fuzz target for FUZZTIME
	@hack/setup test
	@. hack/env.sh && grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do \
		targets=$$(go test -list='^Fuzz' "$$package" | grep '^Fuzz'); \
		for target in $$targets; do \
			echo "$$package $$target"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=1x "$$package"; \
		done; \
	done

build: ## programs into bin/: static ones, and mooring-shim, which loads libvirt
	@hack/setup build
	$(GO) version && packages="$$(go list ./cmd/... | grep -v '/mooring-shim$$')" && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ $$packages
	. hack/env.sh && CGO_ENABLED=1 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ ./cmd/mooring-shim

images: build ## container images into bin/images/, without a daemon; REGISTRY and TAG name them, ONLY chooses
	$(if $(ONLY),,@hack/setup node)
	$(GO) run ./hack/image --registry="$(REGISTRY)" --tag="$(TAG)" --only="$(ONLY)"

chart: ## the Helm chart into bin/
	@hack/setup build
	. hack/env.sh && deploy/helm/render
	$(TOOL) helm lint --strict deploy/helm/mooring
	$(TOOL) helm package --destination=bin deploy/helm/mooring

generate: ## generated files anew
	@hack/setup build bpf
	$(GO) generate ./...

lint: ## linters, shellcheck, and known vulnerabilities
	@hack/setup lint
	$(TOOL) golangci-lint run
	shellcheck -x $$(git grep -lE '^#!.*\b(ba)?sh\b|^# shellcheck shell=' -- . ':!*.md')
	hack/vulncheck

verify: generate ## a clean tree stays so: generated files, go.mod and go.sum are up to date
	@git diff --exit-code && git status --short && [[ -z $$(git status --porcelain) ]]
	git ls-files -z '*go.mod' | xargs -0 -n1 dirname | while read -r m; do ($(GO) mod tidy -C $$m -diff); done

clean: ## remove what was made here (hack/node clean: the node's caches)
	rm -rf bin artefacts
