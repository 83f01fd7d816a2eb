# Needs Go, make and git. `make` alone lists the targets.

BIN     := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(shell git rev-parse HEAD 2>/dev/null) -X main.date=$(shell git log -1 --format=%cI 2>/dev/null)

# The control plane that tests and the demo run against: what KUBEBUILDER_ASSETS
# holds, if it is set, and for the rest what `make plane` builds.
export KUBEBUILDER_ASSETS := $(abspath $(KUBEBUILDER_ASSETS))
PLANE := $(or $(KUBEBUILDER_ASSETS),$(abspath $(BIN)/plane))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: plane build ## watch Kiln at work on a control plane of its own (STORY=rollout: template changes; KEEP=1 leaves it up)
	@cd test && go build -o ../$(BIN)/demo ./demo
	@$(BIN)/demo

.PHONY: soak
soak: plane build ## let everything go wrong for MINUTES=3 on a control plane of its own, then see that all is in order (SEED=1 repeats one)
	@cd test && go build -o ../$(BIN)/soak ./soak
	@$(BIN)/soak

# The race detector needs a C compiler. RACE= leaves it out, RACE=-race insists.
# Packages states and test/image start no goroutine, so there is nothing in them to
# detect, and compressing images under it takes minutes. The suite takes longest, so it
# begins first and the others run beside it. All of them wait more than they compute.
RACE ?= $(shell command -v cc >/dev/null 2>&1 && echo -race)

.PHONY: test test-pure test-image test-plane
test: plane $(BIN)/helm ## run all tests against the same control plane, with the race detector if there is a C compiler
	@$(MAKE) --no-print-directory -j 3 test-plane test-pure test-image

test-pure: # what needs no control plane
	go test -timeout 30m ./states/...
	go test -timeout 30m $(RACE) $$(go list ./... | grep -v /states)

test-image:
	cd test && go test -timeout 30m ./image

test-plane:
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test -timeout 30m -p 4 -parallel $(if $(RACE),4,8) $(RACE) ./suite $$(go list ./... | grep -v '/image\|/suite')

# What rests on the server: its facts and schemas, edges and the writes of a claim,
# freshness, take-overs and crashes; in the second line, what the binary and the chart need.
CORE := TheServerKeeps|ARouterFinds|ThatTheServerDoesNotKnow|ThatHasPassedAWrite|TheServerAccepts|TestEveryEdge|EveryManagerStays|ManagerLeavesOut|WritesAndNine|IsReadyAfter|IsReplacedWith|NeverGetsAnOlder|ProofIsRead|TestWhatTheIncumbent|MemberOfTheIncumbent|TakeoverThatIsCut|DiesAndTheNext|TwoLeadersAtOnceGiveNoSandbox
CORE := $(CORE)|TheLifeOfAController|TestATakeOver|OlderDefinitions|StoryOfARelease|ObjectFitsARealServer|PlainManifests|WhoseAPodIs|NeverGoesFromOne|HaveTheirLevels

.PHONY: oldest
oldest: plane $(BIN)/helm ## run the core of the tests against the oldest API server that Kiln supports, which it builds once
	@test/plane/build oldest && ln -sf $(PLANE)/etcd $(PLANE)/kubectl $(BIN)/oldest/
	cd test && KUBEBUILDER_ASSETS=$(abspath $(BIN)/oldest) go test -timeout 20m -count=1 -p 3 -run '$(CORE)' ./suite ./process ./chart

.PHONY: e2e
e2e: plane node image $(BIN)/helm ## install Kiln on a real node and hold it to its promises (Linux, root; KEEP=1 is a shell on the node instead)
	@cd test && for p in sandbox incumbent; do CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../$(BIN)/node/$$p ./e2e/$$p || exit 1; done && go build -o ../$(BIN)/e2e ./e2e
	@$(BIN)/e2e

$(BIN)/python/installed: test/sdk/requirements.txt
	python3 -m venv $(BIN)/python
	$(BIN)/python/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: sdk
sdk: plane build $(BIN)/python/installed ## run the published Python SDK against Kiln (needs python3 with venv)
	@cd test && go build -o ../$(BIN)/sdk ./sdk
	@$(BIN)/sdk --python $(abspath $(BIN)/python/bin/python)

.PHONY: bench
bench: plane build ## measure every scenario of kiln bench on a control plane of its own, into bin/bench (BENCH= its flags and scenarios; AGAINST=other-kiln,another ROUNDS=3 compares)
	@cd test && go build -o ../$(BIN)/benchstand ./bench
	@$(BIN)/benchstand $(BENCH)

.PHONY: microbench
microbench: plane ## the Go benchmarks: shelf, decisions, configurations, a claim's step, and claims and single writes on a real API server
	go test -run '^$$' -bench . ./states ./apply ./watch/...
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test -run '^$$' -bench Claim -benchtime 200x ./bench && KUBEBUILDER_ASSETS=$(PLANE) go test -run '^$$' -bench Burst -benchtime 3x ./bench && KUBEBUILDER_ASSETS=$(PLANE) go test -run '^$$' -bench Writes -benchtime 240x ./bench/writes

.PHONY: generate
generate: $(BIN)/controller-gen ## make deepcopy functions, CRDs, apply configurations and docs/api.md anew
	go generate ./crds

.PHONY: verify
verify: $(BIN)/controller-gen chart ## prove that generated files, modules and formatting are fresh, and that the chart fits
	@test -z "$$(gofmt -l apply cmd crds docs states watch test)" || { gofmt -d apply cmd crds docs states watch test; exit 1; }
	@for m in . test test/plane test/plane/oldest test/dns test/helm test/prom; do (cd $$m && go mod tidy -diff) || exit 1; done
	@rm -rf $(BIN)/verify && mkdir -p $(BIN)/verify/bin
	@cp -r crds docs go.mod go.sum $(BIN)/verify/ && cp $(BIN)/controller-gen $(BIN)/verify/bin/
	@cd $(BIN)/verify && go generate ./crds
	@diff -r crds $(BIN)/verify/crds && diff docs/api.md $(BIN)/verify/docs/api.md && rm -rf $(BIN)/verify && echo 'verify: everything is fresh'

.PHONY: lint
lint: $(BIN)/golangci-lint ## vet and lint every module
	go vet ./... && (cd test && go vet ./...) && (cd test/prom && go vet ./...) && cd test/dns && go vet ./...
	$(BIN)/golangci-lint run --allow-parallel-runners ./...
	cd test && ../$(BIN)/golangci-lint run --allow-parallel-runners --config ../.golangci.yaml ./...

$(BIN)/controller-gen: test/go.mod test/go.sum
	cd test && go build -o ../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/helm: test/helm/go.mod test/helm/go.sum
	@echo 'building helm, once: this takes minutes the first time'
	cd test/helm && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

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

.PHONY: node
node: $(BIN)/node/coredns ## build what the node that make e2e runs has beside containerd, once
	@test/plane/build node

$(BIN)/node/coredns: test/dns/go.mod test/dns/go.sum test/dns/main.go
	@echo 'building CoreDNS, once: this takes minutes the first time'
	cd test/dns && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$@ .

# The name that the chart has for the image.
IMAGE := ghcr.io/kiln-sandbox/kiln:$(shell sed -n 's/^appVersion: //p' helm/kiln/Chart.yaml)

.PHONY: image
image: ## make bin/kiln-image.tar, an OCI archive for amd64 and arm64, from nothing; the same source gives the same bytes
	@mkdir -p $(BIN)
	@cd test && go run ./image/build -root .. -out ../$(BIN)/kiln-image.tar -name $(IMAGE) -version $(VERSION) \
		-commit $(shell git rev-parse HEAD 2>/dev/null) -date $(shell git log -1 --format=%cI 2>/dev/null)

# What is made by the chart and is not installed by helm does not say that it is helm's.
MANIFEST = $(BIN)/helm template kiln helm/kiln -n agent-sandbox-system --no-hooks --set namespace.create=true,crds.install=false
ONLY_SANDBOXES := --set controller.extensions=false

MANIFESTS ?= $(BIN)/manifests

.PHONY: manifests
manifests: $(BIN)/helm ## render the chart into bin/manifests, for kubectl apply --server-side -f
	@mkdir -p $(MANIFESTS)
	@{ for f in crds/agents/v1beta1/*.yaml; do cat $$f; done; $(MANIFEST) $(ONLY_SANDBOXES) | sed '/managed-by: Helm/d'; } >$(MANIFESTS)/sandbox.yaml
	@{ for f in crds/*/v1beta1/*.yaml; do cat $$f; done; $(MANIFEST) | sed '/managed-by: Helm/d'; } >$(MANIFESTS)/sandbox-with-extensions.yaml
	@ls $(MANIFESTS)/*.yaml

.PHONY: chart
chart: $(BIN)/helm plane ## hold the chart against its schema, a real API server and what it promises
	$(BIN)/helm lint --quiet --strict helm/kiln
	$(BIN)/helm lint --quiet --strict helm/kiln -f test/chart/testdata/everything.yaml
	cd test && KUBEBUILDER_ASSETS=$(PLANE) go test ./chart

.PHONY: clean
clean: ## remove everything built
	rm -rf $(BIN)
