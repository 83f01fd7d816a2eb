# Needs Go, make and git. `make` alone lists the targets.

BIN     := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The control plane that tests and the demo run against: what KUBEBUILDER_ASSETS
# holds, if it is set, and for the rest what `make plane` builds.
export KUBEBUILDER_ASSETS := $(abspath $(KUBEBUILDER_ASSETS))
PLANE := $(or $(KUBEBUILDER_ASSETS),$(abspath $(BIN)/plane))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: plane build ## watch Kiln at work on a control plane of its own (STORY=rollout: template changes; KEEP=1 leaves it up)
	@cd test && go build -o ../$(BIN)/demo ./demo
	@$(BIN)/demo

# The race detector needs a C compiler. RACE= leaves it out, RACE=-race insists.
# Package states starts no goroutine, so there is nothing in it to detect.
RACE ?= $(shell command -v cc >/dev/null 2>&1 && echo -race)

.PHONY: test
test: plane ## run all tests against the same control plane, with the race detector if there is a C compiler
	go test ./states/...
	go test $(RACE) $$(go list ./... | grep -v /states)
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test $(RACE) ./...

.PHONY: bench
bench: plane ## measure: the shelf, the charts, and claims on a real API server
	go test -run '^$$' -bench . ./states
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test -run '^$$' -bench Claim -benchtime 200x ./bench && KUBEBUILDER_ASSETS=$(PLANE) go test -run '^$$' -bench Burst -benchtime 3x ./bench

.PHONY: generate
generate: $(BIN)/controller-gen ## make deepcopy functions, CRDs and apply configurations anew
	go generate ./crds

.PHONY: verify
verify: $(BIN)/controller-gen ## prove that generated files, modules and formatting are fresh
	@test -z "$$(gofmt -l apply cmd crds states watch test)" || { gofmt -d apply cmd crds states watch test; exit 1; }
	@for m in . test test/plane; do (cd $$m && go mod tidy -diff) || exit 1; done
	@rm -rf $(BIN)/verify && mkdir -p $(BIN)/verify/bin
	@cp -r crds go.mod go.sum $(BIN)/verify/ && cp $(BIN)/controller-gen $(BIN)/verify/bin/
	@cd $(BIN)/verify && go generate ./crds
	@diff -r crds $(BIN)/verify/crds && rm -rf $(BIN)/verify && echo 'verify: everything is fresh'

.PHONY: lint
lint: $(BIN)/golangci-lint ## vet and lint every module
	go vet ./... && cd test && go vet ./...
	$(BIN)/golangci-lint run ./...
	cd test && ../$(BIN)/golangci-lint run --config ../.golangci.yaml ./...

$(BIN)/controller-gen: test/go.mod test/go.sum
	cd test && go build -o ../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

LINT := v2.15.0
$(BIN)/golangci-lint: Makefile
	@echo 'building golangci-lint $(LINT), once: this takes minutes'
	GOBIN=$(abspath $(BIN)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT)

.PHONY: build
build: ## build bin/kiln
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/kiln ./cmd/kiln

.PHONY: plane
plane: ## build the control plane's binaries, once
	@test/plane/build

.PHONY: clean
clean: ## remove everything built
	rm -rf $(BIN)
