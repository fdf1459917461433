# podagent: build, test and measure. "make help" lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/podagent/podagent/pkg/podapi.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools.mod

export CGO_ENABLED = 0

.DEFAULT_GOAL := help
.PHONY: help demo build test unit race fuzz lint generate verify bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## run a short agent's session on this source tree (ARGS="--dir DIR" for another)
	bin/orchestrator demo $(ARGS)

build: ## build podagent and orchestrator, static, into bin/
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/podagent ./cmd/orchestrator

test: tools lint verify unit race fuzz ## run everything: lint, verify, tests, race detector, fuzz seeds

.PHONY: tools
tools:
	@hack=; for c in git tar bash setsid; do command -v $$c >/dev/null || hack="$$hack $$c"; done; \
	if [ -n "$$hack" ]; then echo "missing:$$hack" >&2; exit 1; fi

unit: ## run the tests
	$(GO) test -count=1 -timeout 20m ./...

race: ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -count=1 -timeout 20m ./...

lint: ## go vet, staticcheck, gofumpt
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	@bad=$$($(TOOL) gofumpt -l $$(git ls-files '*.go' ':!*.pb.go')); \
	if [ -n "$$bad" ]; then echo "not formatted by gofumpt:" $$bad >&2; exit 1; fi

generate: ## generate the protobuf code
	cd pkg/podapi && $(GO) tool -modfile=../../tools.mod buf generate

verify: ## fail if the generated code or go.mod is not what it should be
	cd pkg/podapi && $(GO) tool -modfile=../../tools.mod buf lint
	./pkg/podapi/verify.sh

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean: ## remove what was built
	rm -rf bin
