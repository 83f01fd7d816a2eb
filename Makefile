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
demo: plane build ## watch Kiln at work on a control plane of its own (KEEP=1 leaves it up)
	@cd test && go build -o ../$(BIN)/demo ./demo
	@$(BIN)/demo

.PHONY: test
test: plane ## run all tests, with the race detector, against the same control plane
	go test -race ./...
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test -race ./...

.PHONY: build
build: ## build bin/kiln
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/kiln ./cmd/kiln

.PHONY: plane
plane: ## build the control plane's binaries, once
	@test/plane/build

.PHONY: clean
clean: ## remove everything built
	rm -rf $(BIN)
