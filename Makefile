# podagent: build, test and measure. "make help" lists the targets.

GO      ?= go
BACKEND ?= local
IMAGE   ?= podagent/runtime:dev
CLUSTER := $(CURDIR)/.cluster
# Where test runs leave their results.
RESULTS := $(CURDIR)/.test
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# Without x/net/trace, which nobody uses, podagent is a sixth smaller and starts a
# millisecond earlier.
TAGS := grpcnotrace
# With vector instructions, still an experiment of Go, a search takes less processor
# time. The results are the same without it, and on processors other than amd64: the
# tests with the race detector have it off.
export GOEXPERIMENT := simd
# Everything is built with the same flags, so that the tests share what they build.
export GOFLAGS := $(strip $(GOFLAGS) $(if $(findstring -trimpath,$(GOFLAGS)),,-trimpath) $(if $(findstring -tags,$(GOFLAGS)),,-tags=$(TAGS)))
# The image of pods that name none, neither by flag nor by PODAGENT_IMAGE.
DEFAULT_IMAGE ?=
LDFLAGS := -s -w -X github.com/podagent/podagent/pkg/podapi/wire.version=$(VERSION) \
	$(if $(DEFAULT_IMAGE),-X github.com/podagent/podagent/pkg/launcher.defaultImage=$(DEFAULT_IMAGE))
# Modules for what only the tests need.
MODULES := test/cluster test/cluster/gvisor test/bench
BUILD   := $(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/
TOOL    := $(GO) tool -modfile=$(CURDIR)/tools.mod

export CGO_ENABLED = 0

.DEFAULT_GOAL := help
.PHONY: help demo build image cluster runtime cluster-down test test-all needs sandboxes checks e2e agentsandbox unit race race-pods race-e2e disrupt soak fuzz lint sbom generate verify web screenshots contracts bench bench-check clean prebuilt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## run a short agent's session on this source tree (BACKEND=kubernetes for a pod, ARGS="--dir DIR" for another tree)
	$(BUILD) ./pkg/launcher/examples/demo
	$(if $(filter kubernetes,$(BACKEND)),$(MAKE) runtime && KUBECONFIG=$${PODAGENT_TEST_KUBECONFIG:-$(CLUSTER)/kubeconfig}) \
	PODAGENT_BIN=$(CURDIR)/bin/podagent bin/demo --backend $(BACKEND) $(if $(filter kubernetes,$(BACKEND)),--image $(IMAGE)) $(ARGS)

build: ## build podagent and orchestrator, static, into bin/ (DEFAULT_IMAGE=registry.example/runtime:1 for an orchestrator whose pods have it)
	@[ -d bin ] || echo "building podagent: the first time this downloads modules, and takes a few minutes"
	$(BUILD) ./cmd/podagent ./cmd/orchestrator

image: ## build the runtime image IMAGE from BASE, with the Debian packages PACKAGES, as .cluster/images/runtime.tar
	IMAGE=$(IMAGE) OUT=$(CLUSTER)/images/runtime.tar VERSION=$(VERSION) images/runtime/build.sh

cluster: ## start a one-node Kubernetes in .cluster, as root (kubeconfig: .cluster/kubeconfig)
	cd test/cluster && $(GO) run . up --dir $(CLUSTER)

cluster-down: ## stop the cluster of "make cluster"
	cd test/cluster && $(GO) run . down --dir $(CLUSTER)

# A cluster with the runtime image, for the demo.
runtime:
	@[ -n "$$PODAGENT_TEST_KUBECONFIG" ] || { $(MAKE) cluster image && \
	cd test/cluster && $(GO) run . load --dir $(CLUSTER) $(CLUSTER)/images/runtime.tar; }

# A cluster with the images of the tests. A cluster named by PODAGENT_TEST_KUBECONFIG
# must have them already.
sandboxes:
	@[ -n "$$PODAGENT_TEST_KUBECONFIG" ] || { $(MAKE) cluster && $(MAKE) image && \
	OUT=$(CLUSTER)/images/embedded.tar images/runtime/testdata/busybox.sh && \
	OUT=$(CLUSTER)/images/scratch.tar images/runtime/testdata/scratch.sh && \
	OUT=$(CLUSTER)/images/programs.tar images/runtime/testdata/programs.sh && \
	OUT=$(CLUSTER)/images/orchestrator.tar images/runtime/testdata/orchestrator.sh && \
	cd test/cluster && $(GO) run . load --dir $(CLUSTER) $(addprefix $(CLUSTER)/images/,runtime.tar busybox.tar scratch.tar embedded.tar programs.tar orchestrator.tar); }

test: ## run everything that CI runs: lint, verify, the tests on a cluster, the race detector
	@RESULTS=$(RESULTS) test/run.sh race disrupt

test-all: ## run everything at full size, and also under the race detector (hours)
	@PODAGENT_TEST_FULL=1 RESULTS=$(RESULTS) test/run.sh soak
test-all: export FUZZTIME ?= 10s

# The order of the targets of a test run. Those that do not wait for each other run at the
# same time: what needs processors beside what waits for pods. Tests that restart parts of
# the cluster run last of those on it. The controller of agent-sandbox must not run beside
# race-pods, where tests order the calls for its objects.
run/sandboxes run/checks: run/needs
run/e2e run/unit: run/sandboxes run/checks
run/agentsandbox: run/unit
run/race-pods: run/agentsandbox
run/race: run/race-pods
run/race-e2e: run/e2e
run/disrupt: run/race-pods run/race-e2e
run/fuzz: run/race run/disrupt
run/sbom: run/fuzz
run/soak: run/sbom
$(if $(PODAGENT_TEST_FULL),run/race-e2e: run/race)

RUNS := $(addprefix run/,needs sandboxes checks e2e unit agentsandbox race-pods race race-e2e disrupt fuzz sbom soak)
.PHONY: $(RUNS)
$(RUNS): run/%:
	+@RESULTS=$(RESULTS) test/target.sh $*

checks: lint verify prebuilt

# Builds what tests on sandboxes build, so that no test waits for it.
prebuilt:
	@cd test/bench && CGO_ENABLED=0 GOFLAGS= GOEXPERIMENT= $(GO) build -trimpath -o /dev/null sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller
	@cd test/bench && CGO_ENABLED=0 GOFLAGS= GOEXPERIMENT= $(GO) build -trimpath -o /dev/null ./internal/agentsandboxclient

# Where version 2 of control groups lacks controllers, the tests of it run in a virtual machine.
MACHINE := $(shell grep -qs 'memory.*pids' /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/unified/cgroup.controllers || echo $(CLUSTER)/machine/vmlinuz)

# The programs besides Go that the tests and benchmarks use, as program=package of Debian,
# and those that only benchmarks or tests at full size use.
NEEDS := git=git bash=bash setsid=util-linux mount=mount cc=gcc tar=tar rg=ripgrep fdfind=fd-find node=nodejs npm=npm curl=curl \
	gdb=gdb strace=strace lsof=lsof fuser=psmisc tmux=tmux vim=vim python3=python3 pip=python3-pip ip=iproute2 \
	ssh=openssh-client rsync=rsync jq=jq zstd=zstd xxd=xxd hexdump=bsdextrautils openssl=openssl dash=dash perl=perl gh=gh chromium=chromium mkfs.btrfs=btrfs-progs \
	$(if $(filter bench,$(MAKECMDGOALS)),restic=restic) $(if $(PODAGENT_TEST_FULL),javac=default-jdk-headless) $(if $(MACHINE),qemu-system-x86_64=qemu-system-x86 cpio=cpio busybox=busybox-static)

needs:
	@missing=; for n in $(NEEDS); do command -v $${n%=*} >/dev/null || missing="$$missing $${n#*=}"; done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing libc6-dev; \
	else \
		echo "missing:$$missing: install them, or run this as root on Debian" >&2; exit 1; \
	fi
	@$(if $(MACHINE),test/machine/kernel.sh $(MACHINE))

# $(call gotest,NAME,VARIABLES) runs tests with these variables. It prints the outcome of
# each package, and failures at once. The results go to NAME.json in RESULTS. What hangs ends
# with the stacks of its goroutines. "make lint" vets them all, once.
gotest = mkdir -p $(RESULTS) && $(2) $(TOOL) gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg \
	--hide-summary skipped --jsonfile-timing-events $(RESULTS)/$(1).json -- -vet=off -count=1 -timeout $(if $(PODAGENT_TEST_FULL),4h,1h)

# The packages to test without the race detector: they only read files or start programs that it
# does not see, or they are of vector instructions, or of processes, which podagent starts without cgo.
PLAIN = . ./clients ./images/... ./cmd/orchestrator/... ./pkg/fsops ./pkg/fsops/internal/linere ./cmd/podagent/internal/proc
# Of the others, unless all are to run, the tests that run without it are those that cannot run with
# it (of memory and of other programs), and those that "make race" leaves out.
UNRACED_FILES = $(shell git grep -lE '^//go:build.*!race|^func Test(Local|Cluster)?Scripts' -- '*_test.go' ':!test')
PARTS = $(filter-out $(PLAIN) ./. ./images/% ./cmd/orchestrator,$(sort $(patsubst %/,./%,$(dir $(UNRACED_FILES)))))
PARTS_RUN = $(if $(PODAGENT_TEST_FULL),,-run '$(UNRACED)$(shell git grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]+' -- \
	$$(git grep -l '^//go:build.*!race' -- $(UNRACED_FILES)) | sed 's/func \(.*\)/|^\1$$/' | tr -d '\n')')

# The packages to test with it: all but the module's own, the clients' and the CLI's, which only read
# files and start programs. Those whose tests need pods are a target of their own. Of the
# tests on sandboxes, unless all are to run, these are only the tests of the hardest parts of the
# client: cuts, owners, lazy sandboxes, sessions. Left out are scripts and fork bombs, which start programs, and
# long computations of one goroutine; these tests have run without it.
ON_PODS = $(sort $(patsubst %/,./%,$(dir $(shell git grep -lwE '(New|Own|Disrupted)Cluster' -- 'pkg/*_test.go' ':!pkg/launcher/examples'))))
RACED = $(filter-out $(ON_PODS),$(shell $(GO) list -f '.{{slice .ImportPath (len .Module.Path)}}' ./... | grep -v -e /test/e2e -e /images/ -e /clients -e ^\\.$$ -e /cmd/orchestrator$$))
UNRACED := ^Test(Local|Cluster)?Scripts$$|Equals?GoRegexp|NotQuadratic|HugePatterns|RequiredLiteral|MillionIDs|FewIDs|ForkBomb|ForkStorm
RACED_E2E := $(if $(PODAGENT_TEST_FULL),,-run '^Test(CutDuringCalls|200MB|Lazy|Exclusive|SessionStore)' -skip '/connection_stuck')

# Eight tests at once even on few processors, since they mostly wait for their pods. Beside them,
# two of the other packages at once, since these mostly wait for their programs.
e2e: ## run the tests on sandboxes, except those that disrupt the cluster (RUN=TestName for some)
	@$(call gotest,e2e) -parallel 8 -run '$(RUN)' ./test/e2e

agentsandbox: ## run the tests with agent-sandbox's controller (RUN=TestName for some)
	@$(call gotest,agentsandbox) -parallel 8 -run '$(RUN)' ./test/e2e/agentsandbox

unit: ## run the other tests, without the race detector (PKG=./pkg/fsops for any one package)
	@[ -n "$(PKG)" ] || { $(call gotest,unit-parts) -p 2 -parallel 4 $(PARTS_RUN) $(PARTS); }
	@$(call gotest,unit) -p 2 $(or $(PKG),$(PLAIN))
	@[ -n "$(PKG)" ] || { cd test/bench && $(call gotest,bench) ./...; }
	@[ -n "$(PKG)$$PODAGENT_TEST_KUBECONFIG" ] || { cd test/cluster && $(call gotest,cluster,PODAGENT_CLUSTER_BIN=$(CLUSTER)/bin) ./...; }

race: ## run the tests without pods that profit from the race detector with it (PKG=./pkg/fsops for any one package)
	@$(call gotest,race,CGO_ENABLED=1 GOEXPERIMENT=) -race -skip '$(UNRACED)' $(or $(PKG),$(RACED))

race-pods: ## run the other tests that profit from it, whose packages need pods
	@$(call gotest,race-pods,CGO_ENABLED=1 GOEXPERIMENT=) -race -parallel 8 -skip '$(UNRACED)' $(ON_PODS)

race-e2e: ## run the hardest tests on sandboxes with the race detector (PODAGENT_TEST_FULL=1 for all)
	@$(call gotest,race-e2e,CGO_ENABLED=1 GOEXPERIMENT=) -race -parallel 8 $(RACED_E2E) ./test/e2e

disrupt: ## run the tests that restart parts of the cluster
	@$(call gotest,disrupt) ./test/e2e/disrupt

soak: ## run a million commands (EXECS=n for another number) and check that nothing grows
	PODAGENT_SOAK_EXECS=$(or $(EXECS),1000000) $(GO) test -count=1 -timeout 4h -run TestSoak -v ./cmd/podagent/internal/agent

fuzz: ## fuzz each parser for a while (FUZZTIME=30s), starting from the inputs of its test
	@set -e; for dir in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		for f in $$($(GO) test -list '^Fuzz' "./$$dir" | grep '^Fuzz'); do \
			echo "$$dir $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(FUZZTIME),30s) "./$$dir"; \
		done; \
	done

lint: ## run go vet, staticcheck, gofumpt, helm lint and govulncheck
	$(GO) vet ./... && for m in $(MODULES); do (cd $$m && $(GO) vet ./...) || exit 1; done
	GOEXPERIMENT= $(GO) vet ./pkg/fsops/...
	$(TOOL) staticcheck ./... && for m in $(MODULES); do (cd $$m && $(TOOL) staticcheck ./...) || exit 1; done
	@bad=$$(git ls-files '*.go' ':!*.pb.go' | xargs $(TOOL) gofumpt -l); \
	if [ -n "$$bad" ]; then echo "not formatted by gofumpt:" $$bad >&2; exit 1; fi
	$(GO) tool -modfile=deploy/helm.mod helm lint --strict --quiet deploy/chart
	@test/vulnerabilities.sh

# The bill of materials of an image needs the image: "make image" makes it.
sbom: build image ## write software bills of materials (SPDX) for both programs and the runtime image into bin/
	for from in podagent=file:bin/podagent orchestrator=file:bin/orchestrator runtime=docker-archive:$(CLUSTER)/images/runtime.tar; do \
		SYFT_CHECK_FOR_APP_UPDATE=false $(GO) tool -modfile=deploy/syft.mod syft scan --quiet "$${from#*=}" \
			--source-name "$${from%%=*}" --source-version '$(VERSION)' --output "spdx-json=bin/$${from%%=*}.spdx.json" || exit 1; \
	done

generate: ## generate the protobuf code, the pages of settings and contracts, and the description of the gateway
	cd pkg/podapi && $(TOOL) buf generate
	page=$$(PODAGENT_IMAGE= $(GO) run ./cmd/orchestrator settings --markdown --config /dev/null) && printf '%s\n' "$$page" > cmd/orchestrator/SETTINGS.md
	text=$$($(GO) run ./cmd/orchestrator gateway --openapi) && printf '%s\n' "$$text" > pkg/gateway/openapi.json
	text=$$($(GO) run ./test/contracts/page) && printf '%s\n' "$$text" > docs/contracts.md

# What the page is built from, and what of it is kept.
WEB = pkg/gateway/console/web
# $(call buildweb,DIR) builds the page into a directory, in a copy of its sources.
buildweb = scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	git ls-files -z -- $(WEB) | xargs -0 cp --parents -t "$$scratch" && cd "$$scratch"/$(WEB) && \
	npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel error >/dev/null && npx --no-install tsc && node build.mjs $(1)

web: ## build the page of the console from its sources in pkg/gateway/console/web
	@$(call buildweb,$(CURDIR)/pkg/gateway/console/dist)

screenshots: ## take the pictures of the console in docs/console
	mkdir -p docs/console && PODAGENT_SCREENSHOTS=$(CURDIR)/docs/console $(GO) test -count=1 -run TestConsoleInABrowser ./pkg/gateway/console

verify: ## fail if the generated code, the page of contracts, the gateway's description, the console or go.mod is out of date
	cd pkg/podapi && $(TOOL) buf lint
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	(cd pkg/podapi && $(TOOL) buf generate -o "$$scratch") && \
	for f in podapi.pb.go podapi_grpc.pb.go; do \
		diff -u pkg/podapi/podapiv1/$$f "$$scratch"/podapiv1/$$f >&2 || \
		{ echo "$$f is out of date: run make generate" >&2; exit 1; }; \
	done
	@$(GO) run ./cmd/orchestrator gateway --openapi | diff -u pkg/gateway/openapi.json - >&2 || \
		{ echo "openapi.json is out of date: run make generate" >&2; exit 1; }
	@text=$$($(GO) run ./test/contracts/page) && printf '%s\n' "$$text" | diff -u docs/contracts.md - >&2 || \
		{ echo "docs/contracts.md is not what the tests saw: run make generate" >&2; exit 1; }
	@$(call buildweb,"$$scratch"/dist) && diff -r "$$scratch"/dist $(CURDIR)/pkg/gateway/console/dist >&2 || \
		{ echo "the page of the console is out of date: run make web" >&2; exit 1; }
	for m in . $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || exit 1; done

# The tests that keep what they see of contracts, by their names in the files that they write.
SEEING = $(shell sed -n 's/^\(Test[A-Za-z0-9_]*\):$$/\1/p' test/contracts/seen/*/*.yaml | sort -u)
empty :=
contracts: export PODAGENT_TEST_FULL = 1
contracts: needs sandboxes ## write anew what the tests see of other products' APIs (RUN=TestName for a new test)
	@$(call gotest,contracts,PODAGENT_CONTRACTS_UPDATE=1) -p 1 -run '^($(subst $(empty) $(empty),|,$(strip $(SEEING) $(RUN))))$$' \
		$$(git grep -l 'contracts\.Record(' -- '*_test.go' ':!test/contracts' | xargs -n 1 dirname | sort -u | sed 's,^,./,')
	$(MAKE) generate

bench: needs sandboxes ## measure podagent beside its peers (GROUP=Calls, Streams, Search, Start, Many, Cost, Tools, Egress, Isolation, SSH, Console, Checkpoint or Scale for one; PUBLISH=1 for the published tables)
	cd test/bench && $(GO) test -run '^$$' -bench '$(or $(GROUP),.)' -timeout 2h . -args $(BENCH) $(if $(PUBLISH),-publish)
	$(if $(GROUP),,cd test/cluster && $(GO) test -run '^$$' -bench . -benchtime 3x .)

bench-check: ## measure, and fail if podagent is slower than its targets
	$(MAKE) bench BENCH=-check

clean: ## remove bin/ and the test results
	rm -rf bin $(RESULTS)
