# Programs go to bin/, logs and test results to artefacts/, caches to ~/.cache/mooring.
# hack/setup installs the packages for a target. hack/env.sh puts a usable Go into PATH.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export MOORING_ARTEFACTS ?= $(CURDIR)/artefacts

GO   := . hack/env.sh && go
TOOL := $(GO) tool -modfile=tools/go.mod
TEST := mkdir -p "$$MOORING_ARTEFACTS" && $(TOOL) gotestsum --format=pkgname \
	--format-hide-empty-pkg --jsonfile="$$MOORING_ARTEFACTS"
# Every wait in a test has a deadline of its own. TIMEOUT only ends a hung test.
TIMEOUT ?= 3h
# RACE=-race makes the unit tests check for data races. They then take several times longer.
RACE    ?=
# Emulated nodes and control planes leave the processors idle, so their targets run concurrently.
AT_ONCE := --no-print-directory --keep-going --jobs=3

# The packages of each tier. Recipes first store a list in a variable. Otherwise a failed `go list`
# would not fail the recipe.
NODE_TESTS    := /hack/throwaway$$|/integration/suite$$
CONTROL_PLANE_TESTS := /integration/(deploy|kube|kubevirt|quota)$$
CLUSTER_TESTS := /integration/(e2e|kubevirtnode)$$
UNIT           = $$(go list ./... | \
	grep -vE '$(NODE_TESTS)|$(CONTROL_PLANE_TESTS)|$(CLUSTER_TESTS)')
SUITES        ?= $$(go list ./... | grep -E '$(NODE_TESTS)')
CONTROL_PLANES ?= $$(go list ./... | grep -E '$(CONTROL_PLANE_TESTS)')
# The part of the suites that `make test` runs: tests by name, and one package.
CORE_SUITE := Node Memlock.* Unlimited.* CgroupSettings.* Refusal.* PlainPod.* Other.* PodDirectory.* \
	PodTermination UserNamespace WithoutTheAgent KubeletUpdate.* FailedStart.* RemovedPod.*
EMPTY      :=
SPACE      := $(EMPTY) $(EMPTY)
CORE       := ^(TestCore($(subst $(SPACE),|,$(strip $(CORE_SUITE))))|TestHookEndsTheVM|TestSidecar)$$
CORE_CONTROL_PLANE := /integration/kube$$
# Packages with unit tests that most machines skip in part. The node has all they need.
IN_NODE    ?= ./deploy/systemd ./agent ./agent/libvirt ./cli/nodeconfig ./lifecycle/host \
	./lifecycle/poddir
BENCH      ?= ./bpf ./cmd/mooring-hook ./decide ./lifecycle/... ./memlock/... ./plugin/...
COUNT      ?= 6
BENCHTIME  ?= 1s
RESULT     ?= $(MOORING_ARTEFACTS)/benchmarks.json
# A quick run takes seconds and checks that every benchmark works. Its figures are meaningless.
QUICK      ?= $(if $(filter 1x,$(BENCHTIME)),--quick)
# Versions of libvirt and QEMU: of this machine (host), and of Debian releases.
VERSIONS   ?= host trixie forky
STEPS      ?= 2000
SEED       ?= 1
# The number of inputs for each fuzz target. A duration such as 10s sometimes fails with "context
# deadline exceeded".
FUZZTIME   ?= 200000x
# Images of the suites in clusters: the prefix of their names, and their tag. No registry has them:
# `kind load` copies them to the nodes, and the node with KubeVirt has them on its disk.
export MOORING_E2E_REGISTRY ?= registry.invalid/mooring
export MOORING_E2E_TAG ?= e2e
# Flags of hack/kind, such as --image=kindest/node:v1.35.0.
KIND       ?=
E2E_IMAGES  = $(patsubst %,bin/images/%.tar,mooring-agent mooring-controller e2e-launcher) \
	$(wildcard bin/last-release/*.tar)
# The version of KubeVirt: 1.7 or 1.9. Empty: 1.7.
KUBEVIRT   ?=
export MOORING_KUBEVIRT_VERSION ?= $(KUBEVIRT)
KUBEVIRT_IMAGES = $(patsubst %,bin/images/%.tar,mooring-agent mooring-controller mooring-shim) \
	$(wildcard bin/last-release/*.tar)
# Whether TESTS selects the upgrade of Mooring from its last release. Others do not build it.
NEEDS_LAST = $(filter .,$(TESTS))$(findstring Upgrade,$(subst KubeVirtUpgrade,,$(TESTS)))
# The version for the upgrade of TestKubeVirtUpgrade, such as 1.9. Empty: no upgrade.
UPGRADE    ?=
# The nodes of `make kubevirt`: 1, or 2 for the tests of migrations.
NODES      ?= 1
# The tests of `make kind`, `make kubevirt` and `make kubevirt-e2e`.
TESTS      ?= .
# Images: the prefix of their names, their tag (that of the chart), and the names of the images to
# build (empty: all).
REGISTRY   ?=
TAG        ?= $(shell sed -n 's/^appVersion: //p' deploy/helm/mooring/Chart.yaml)
ONLY       ?=

.PHONY: help run node check setup node-image kubernetes kubevirt-programs kubevirt test test-all \
	rest unit newer-libvirt node-core core-in-node rest-in-node control-plane-core suites \
	units-in-node suites-in-node node-rest control-planes control-planes-rest conformance kind \
	e2e-images launcher-image e2e e2e-suite kubevirt-run kubevirt-suite kubevirt-e2e \
	kubevirt-e2e-run torture \
	matrix bench fuzz build images chart release generate lint verify clean
help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## show what Mooring does: a memory lock, a VM's end, a live resize, a migration
	@hack/setup build node guest
	@. hack/env.sh && go build -o bin/ ./integration/demo ./cmd/mooring-controller ./cmd/mooring-shim
	@hack/node run --reuse -- bin/demo

node: ## open a shell in the throw-away node
	@hack/node shell

check: ## the quick tier: build, vet, unit tests with -race, without a node
	@hack/setup test
	$(GO) build ./... && go vet ./...
	. hack/env.sh && ! "$$(go env GOROOT)"/bin/gofmt -l . | grep .
	. hack/env.sh && packages="$(UNIT)" && \
		$(TEST)/check.json -- -race -short -timeout=$(TIMEOUT) $$packages

setup: ## build the environments of all tests once: the node's disk, Kubernetes, KubeVirt
	@hack/setup build test node
	@$(MAKE) $(AT_ONCE) node-image kubernetes kubevirt-programs

node-image:
	@hack/node image >/dev/null

kubernetes:
	@$(GO) run ./hack/kube/cmd/kube >/dev/null

kubevirt-programs:
	@$(GO) run ./hack/kubevirt/cmd/kubevirt >/dev/null
	@. hack/env.sh && MOORING_KUBEVIRT_VERSION=1.9 go run ./hack/kubevirt/cmd/kubevirt >/dev/null

test: ## the newcomer's test: unit tests, the core of the node suite, one control-plane suite
	@hack/setup build test node
	@$(MAKE) $(AT_ONCE) node-image kubernetes
	@$(MAKE) $(AT_ONCE) unit node-core control-plane-core

test-all: test rest ## every test that needs no quiet machine; CONTRIBUTING.md lists the others

rest: setup
	@$(MAKE) $(AT_ONCE) node-rest control-planes-rest newer-libvirt

unit:
	. hack/env.sh && packages="$(UNIT)" && \
		$(TEST)/unit.json -- $(RACE) -timeout=$(TIMEOUT) $$packages

# One node serves all packages of a target. The targets named -in-node need it in $$MOORING_NODE.
ON_NODE := hack/node run -- env -u MAKEFLAGS $(MAKE) --no-print-directory --keep-going

node-core:
	$(ON_NODE) core-in-node

node-rest:
	$(ON_NODE) units-in-node rest-in-node

suites: ## every test on the node
	@hack/setup build test node
	$(ON_NODE) units-in-node suites-in-node

core-in-node:
	$(TEST)/node-core.json -- -count=1 -timeout=$(TIMEOUT) -run='$(CORE)' ./integration/suite

rest-in-node:
	. hack/env.sh && packages="$(SUITES)" && \
		$(TEST)/node-rest.json -- -count=1 -timeout=$(TIMEOUT) -p=1 -skip='$(CORE)' $$packages

suites-in-node:
	. hack/env.sh && packages="$(SUITES)" && \
		$(TEST)/suites.json -- -count=1 -timeout=$(TIMEOUT) -p=1 $$packages

units-in-node:
	$(TEST)/units-in-node.json -- -count=1 -timeout=$(TIMEOUT) \
		-exec="'$(CURDIR)/hack/on-node'" $(IN_NODE)

# libvirt before 9.5, as on Debian bookworm, refuses the domains of KubeVirt with headroom.
newer-libvirt:
	. hack/env.sh && root=$$(go run ./hack/libvirt-root trixie) && \
		export MOORING_CI_REQUIRE=1 MOORING_LIBVIRT_ROOT="$$root" && \
		$(TEST)/newer-libvirt.json -- -count=1 -timeout=30m -p=1 \
		-run='^(TestQEMUAttach|TestKubeVirtDomain)$$' ./shim/virt/libvirt ./shim/coordinator

# Control planes run on this machine and need no node.
control-plane-core:
	. hack/env.sh && packages="$$(go list ./... | grep -E '$(CORE_CONTROL_PLANE)')" && \
		$(TEST)/control-plane-core.json -- -count=1 -timeout=$(TIMEOUT) $$packages

control-planes-rest:
	. hack/env.sh && packages="$$(printf '%s\n' $(CONTROL_PLANES) | \
			grep -vE '$(CORE_CONTROL_PLANE)')" && \
		$(TEST)/control-planes-rest.json -- -count=1 -timeout=$(TIMEOUT) -p=1 $$packages

control-planes: ## every test on a control plane
	@hack/setup build test
	@$(MAKE) $(AT_ONCE) kubernetes kubevirt-programs
	. hack/env.sh && packages="$(CONTROL_PLANES)" && \
		$(TEST)/control-planes.json -- -count=1 -timeout=$(TIMEOUT) -p=1 $$packages

conformance: ## the tests with libvirt and QEMU on VERSIONS of them: host, trixie and forky
	@hack/setup test node
	@$(MAKE) --no-print-directory --keep-going $(VERSIONS:%=conformance-on-%)
	@cd "$$MOORING_ARTEFACTS" && grep -oE 'libvirt [0-9]+, QEMU [0-9]+, unplugs vCPUs: (true|false)' \
		$(VERSIONS:%=conformance-%.json) | sort -u
	$(if $(filter forky,$(VERSIONS)),@grep -q 'unplugs vCPUs: true' \
		"$$MOORING_ARTEFACTS"/conformance-forky.json || { echo 'no test unplugged vCPUs' && false; })
	@cd "$$MOORING_ARTEFACTS" && ! sed -nE \
		's/.*"Action":"(pass|skip)","Package":"([^"]*)","Test":"([^"]*)".*/\1 \2.\3/p' \
		$(VERSIONS:%=conformance-%.json) | awk '{ results[$$2] = results[$$2] $$1 } END { \
			for (t in results) if (results[t] !~ /pass/) print "skipped on each version: " t }' | grep .

# The packages with tests that start a libvirtd, the start gate's among them, and the conformance
# suite of the fake.
conformance-on-%:
	. hack/env.sh && root= && \
		if [[ $* != host ]]; then root=$$(go run ./hack/libvirt-root $*); fi && \
		packages=$$(grep -rlE --include='*_test.go' '/libvirttest"|"MOORING_LIBVIRT_ROOT"' . | \
			xargs -n1 dirname | sort -u) && \
		export MOORING_CI_REQUIRE=1 MOORING_REQUIRE_LIBVIRT=1 MOORING_LIBVIRT_ROOT="$$root" && \
		$(TEST)/conformance-$*.json -- -count=1 -timeout=30m -p=1 $$packages ./shim/virt/virttest

kind: e2e-images ## a kind cluster with Mooring: install, e2e suite, uninstall; KIND=FLAGS
	hack/kind run $(KIND) -- $(MAKE) --no-print-directory e2e

e2e-images: build
	$(GO) run ./hack/image --registry="$(MOORING_E2E_REGISTRY)" --tag="$(MOORING_E2E_TAG)" \
		--only=mooring-agent,mooring-controller
	@$(MAKE) --no-print-directory launcher-image
	hack/last-release "$(MOORING_E2E_REGISTRY)" bin/last-release

launcher-image: # of the e2e suite's pods and of examples/kind.yaml
	@hack/setup build
	. hack/env.sh && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o bin/ ./integration/e2e/launcher
	mkdir -p bin/images
	$(GO) run ./integration/e2e/image "$(MOORING_E2E_REGISTRY)/e2e-launcher:$(MOORING_E2E_TAG)" \
		bin/images/e2e-launcher.tar

e2e:
	hack/kind load $(E2E_IMAGES)
	@$(MAKE) --no-print-directory e2e-suite

e2e-suite:
	export MOORING_E2E_LAST_CHART=$(CURDIR)/bin/last-release/chart \
		MOORING_E2E_LAST_TAG="$$(cat bin/last-release/tag)" && \
	$(TEST)/e2e.json -- -count=1 -v -timeout=$(TIMEOUT) -run='$(TESTS)' ./integration/e2e

kubevirt: ## VMs of the real KubeVirt without and with Mooring; TESTS, KUBEVIRT, NODES, UPGRADE
	@hack/setup build node guest
	@$(MAKE) $(AT_ONCE) kubernetes kubevirt-programs
	@$(MAKE) --no-print-directory images REGISTRY="$(MOORING_E2E_REGISTRY)" \
		TAG="$(MOORING_E2E_TAG)"
	$(if $(NEEDS_LAST),hack/last-release "$(MOORING_E2E_REGISTRY)" bin/last-release)
	@$(MAKE) --no-print-directory kubevirt-run

kubevirt-run:
	hack/kubevirt-node run --nodes=$(NODES) $(UPGRADE:%=--upgrade=%) \
		$(KUBEVIRT_IMAGES:%=--image=%) -- $(MAKE) --no-print-directory kubevirt-suite

# The images exist when the inner make starts, and not when the outer one does.
kubevirt-e2e: ## the e2e suite beside the real KubeVirt; TESTS=REGEXP, KUBEVIRT=1.9
	@hack/setup build node guest
	@$(MAKE) $(AT_ONCE) kubernetes kubevirt-programs e2e-images
	@$(MAKE) --no-print-directory kubevirt-e2e-run

kubevirt-e2e-run:
	hack/kubevirt-node run $(E2E_IMAGES:%=--image=%) -- $(MAKE) --no-print-directory e2e-suite

kubevirt-suite:
	$(if $(NEEDS_LAST),export MOORING_E2E_LAST_CHART=$(CURDIR)/bin/last-release/chart \
		MOORING_E2E_LAST_TAG="$$(cat bin/last-release/tag)" &&) \
	$(TEST)/kubevirt.json -- -count=1 -v -timeout=$(TIMEOUT) -run='$(TESTS)' \
		./integration/kubevirtnode

torture: ## STEPS random faults on a node with launchers and VMs, chosen by SEED
	@hack/setup build node
	$(GO) version && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o bin/ ./integration/torture
	hack/node run -- bin/torture --steps=$(STEPS) --seed=$(SEED)

matrix: ## the core on other runtimes and kernels, for the compatibility page; CELL=NAME runs one
	@hack/setup build node
	@$(GO) run ./integration/matrix $(CELL)

# RESULT=integration/bench/benchmarks.json updates the published figures.
bench: ## benchmarks; BASE=FILE compares with an earlier bench.txt, RESULT=FILE stores figures
	@hack/setup build test && mkdir -p "$$MOORING_ARTEFACTS"
	$(GO) test -run='^$$' -bench=. -benchmem -benchtime=$(BENCHTIME) -count=$(COUNT) $(BENCH) | \
		tee "$$MOORING_ARTEFACTS"/bench.txt
	$(TOOL) benchstat $(BASE) "$$MOORING_ARTEFACTS"/bench.txt
	. hack/env.sh && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ \
		./cmd/mooring-agent ./cmd/mooring-controller ./integration/bench
	bin/bench machine $(QUICK) --result="$(RESULT)"
	bin/bench quota $(QUICK) --result="$(RESULT)"
	rm -f "$$MOORING_ARTEFACTS"/resize.json
	. hack/env.sh && $(if $(QUICK),MOORING_QUICK=1) \
		MOORING_SAMPLES="$$MOORING_ARTEFACTS"/resize.json \
		MOORING_OWN_SAMPLES="$$MOORING_ARTEFACTS"/own-resize.json \
		go test -run='^$$' -bench=Resize -benchtime=1x ./shim/coordinator
	bin/bench own-resize --samples="$$MOORING_ARTEFACTS"/own-resize.json --result="$(RESULT)"
	rm -f "$$MOORING_ARTEFACTS"/start-gate.json
	. hack/env.sh && MOORING_START_SAMPLES="$$MOORING_ARTEFACTS"/start-gate.json \
		go test -run='^$$' -bench=Start -benchtime=$(if $(QUICK),2x,60x) ./cmd/mooring-hook
	@if [[ -e "$$MOORING_ARTEFACTS"/start-gate.json ]]; then \
			bin/bench start-gate --samples="$$MOORING_ARTEFACTS"/start-gate.json \
				--result="$(RESULT)"; \
		else echo 'skipped the start gate: it needs libvirtd and QEMU'; fi
	@if [[ -e "$$MOORING_ARTEFACTS"/resize.json ]]; then \
			bin/bench resize --samples="$$MOORING_ARTEFACTS"/resize.json --result="$(RESULT)"; \
		else echo 'skipped the resizes: they need libvirtd and QEMU'; fi
	$(if $(QUICK),@echo 'skipped the node: BENCHTIME is 1x',\
		hack/node run -- bin/bench node --result="$(RESULT)")

fuzz: ## each fuzz target for FUZZTIME
	@hack/setup test
	@. hack/env.sh && grep -rlE --include='*_test.go' '^func Fuzz' . | \
		xargs -n1 dirname | sort -u | while read -r package; do \
		targets=$$(go test -list='^Fuzz' "$$package" | grep '^Fuzz'); \
		for target in $$targets; do \
			echo "$$package $$target"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) \
				-fuzzminimizetime=1x "$$package"; \
		done; \
	done

build: ## programs into bin/: static ones, and mooring-shim, which loads libvirt
	@hack/setup build
	$(GO) version && packages="$$(go list ./cmd/... | grep -v '/mooring-shim$$')" && \
		CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ $$packages
	. hack/env.sh && \
		CGO_ENABLED=1 go build -trimpath -buildvcs=auto -ldflags=-s -o bin/ ./cmd/mooring-shim

images: build ## container images into bin/images/, without a daemon; see REGISTRY, TAG, ONLY
	$(if $(ONLY),,@hack/setup node)
	$(GO) run ./hack/image --registry="$(REGISTRY)" --tag="$(TAG)" --only="$(ONLY)"

chart: ## the Helm chart into bin/
	@hack/setup build
	. hack/env.sh && deploy/helm/render
	$(TOOL) helm lint --strict --set=images.registry=registry.example.com/mooring \
		deploy/helm/mooring
	$(TOOL) helm package --destination=bin deploy/helm/mooring

release: ## files of a release; VERSION=v0.2.0, REGISTRY; SNAPSHOT=1 needs no tag
	@hack/setup build node release
	$(GO) run ./hack/release --version="$(VERSION)" --registry="$(REGISTRY)" \
		$(if $(SNAPSHOT),--snapshot)

generate: ## regenerate the generated files
	@hack/setup build bpf
	$(GO) generate ./...

lint: ## linters, shellcheck, and known vulnerabilities
	@hack/setup lint
	$(TOOL) golangci-lint run
	shellcheck -x $$(git grep -lE '^#!.*\b(ba)?sh\b|^# shellcheck shell=' -- . ':!*.md')
	hack/vulncheck

verify: generate ## check that generated files, go.mod and go.sum are up to date
	@git diff --exit-code && git status --short && [[ -z $$(git status --porcelain) ]]
	git ls-files -z '*go.mod' | xargs -0 -n1 dirname | while read -r m; do \
		($(GO) mod tidy -C $$m -diff); done

clean: ## remove bin/ and artefacts/ (`hack/node clean` removes the node's caches)
	rm -rf bin artefacts
