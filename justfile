# Recipes for developers and CI. `./just RECIPE` needs nothing installed before; `just RECIPE` works as well.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Components that `build-providers` makes, each with its limit in bytes: a ConfigMap holds 1 MiB, and the smaller, the sooner
# loaded. As .gz it has half of that.
providers := "cloudlycke:230000 digitalocean:540000 openstack:900000"
# Most bytes of the host, with the commands for people: doctor and explain.
host_limit := "32000000"
cargo_deny := "0.20.2"
cargo_cyclonedx := "0.5.7"
cargo_bolero := "0.13.5"
# Tool chains of the providers in other languages. Of wit-bindgen the last one whose bindings for Go fit what the Go module proxy has.
wit_bindgen := "0.58.0"
wasm_tools := "1.263.0"
componentize_js := "0.23.0"
componentize_qjs := "0.4.5"
componentize_py := "0.25.1"
# What these need themselves is that of this day.
npm_day := "2026-11-20"
hello_npm := "componentize-js-" + componentize_js + "-qjs-" + componentize_qjs
# System tests that `release-test` runs: those in which size, speed and what the linker leaves out could make a difference.
release_tests := "leader:: acceptance:: walkthrough:: manifests:: metrics:: inspect:: credentials:: hostile:: swap::gate swap::probation webhook:: digitalocean::nodes digitalocean::balancers"
# The oldest and the newest version of Kubernetes that `test-kubernetes` runs, with the newest patches that the Go module proxy has of them.
kubernetes := env("KUBERNETES", "1.33.13 1.37.2")
# System tests that it runs: those in which the API server could make a difference.
kubernetes_tests := "acceptance:: walkthrough:: plan:: initialise:: node_lifecycle:: services:: leader:: webhook:: manifests::uninstall manifests::fence doctor::a_healthy"
cache := env("XDG_CACHE_HOME", env("HOME") / ".cache") / "wasm-ccm"
# Where cargo puts what it builds in providers/.
wasm := env("CARGO_TARGET_DIR", justfile_directory() / "providers/target")
# What fails at random in `test`: another number, other faults.
seed := env("DIGITALOCEAN_FAULTS", "1")

# Tests at the same time, also on two cores: those of the system mostly wait.
threads := if num_cpus() =~ '^[1-4]$' { "4" } else { num_cpus() }

# What demo, tests and benchmarks build. Named together, so that cargo chooses one set of features for all of them, that of
# `cargo test --workspace`, and builds each dependency once.
dev := "-p wasm-ccm -p ccm-e2e -p ccm-test-features"
dev_programs := env("CARGO_TARGET_DIR", "target") / "debug"

# Components name no folder of the machine that built them, so that they are the same bytes everywhere. The linker writes each number
# in as few bytes as it needs, and not in five: that takes a fifteenth off a component, and works only without debug information.
release_flags := "-Clink-arg=--compress-relocations --remap-path-prefix=" + justfile_directory() + "=/src --remap-path-prefix=" + env("CARGO_HOME", env("HOME") / ".cargo") + "=/cargo"

# What is only type-checked needs no allocator in C: to configure and compile it costs a minute. Nobody opens this file.
unlinked := "JEMALLOC_OVERRIDE=" + quote(justfile_directory() / "target" / "unlinked" / "libjemalloc.so")

# List the recipes
default:
    @{{ quote(just_executable()) }} --list --unsorted

# A cluster in a few seconds, before and after the provider; ARGS: --keep leaves it running, swap exchanges the provider
demo *ARGS: _tools build-providers _control-plane
    #!/usr/bin/env bash
    set -euo pipefail
    if [[ {{ quote(ARGS) }} == *swap* ]]; then
        {{ quote(just_executable()) }} _next _guests
    fi
    {{ quote(just_executable()) }} _programs
    exec {{ quote(dev_programs) }}/demo {{ ARGS }}

# All tests, in both workspaces; builds all that they need, runs all of them whatever fails, and names at the end what failed. Those
# of DigitalOcean run once more while its cloud fails at random; those of its webhook plan all that fails. With WASM_CCM set to an
# optimised host, the first pass is its; what fails at random always meets the host that stops at an overflow.
[doc("All tests, in both workspaces, and at the end the names of what failed (OpenStack: test-openstack)")]
test: _tools build-providers _guests _control-plane
    #!/usr/bin/env bash
    set -uo pipefail
    logs=target/test
    rm -rf "$logs" && mkdir -p "$logs"
    failures=()
    pass() { # name command...
        local name=$1 start=$SECONDS code
        shift
        echo "==> $name: $*"
        "$@" 2>&1 | tee "$logs/$name.log"
        code=${PIPESTATUS[0]}
        echo "==> $name: $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
        [ "$code" -eq 0 ] && return
        # cargo lists them after the word, after what they printed.
        local names
        names=$(awk '/^failures:$/ { listed = 1; next } listed && /^    [^ ]/ { sub(/^ +/, ""); print; next }
            NF { listed = 0 } /didn.t exit successfully.*\(signal/ { print }' "$logs/$name.log" | sort -u)
        if [ -z "$names" ]; then
            failures+=("$name: it ended with code $code before it named a test")
        else
            while read -r test; do failures+=("$name: $test"); done <<<"$names"
        fi
    }
    pass programs {{ quote(just_executable()) }} _programs
    export RUST_TEST_THREADS={{ threads }}
    pass host env -u DIGITALOCEAN_FAULTS cargo test --workspace --no-fail-fast
    echo "requests to DigitalOcean's cloud fail at random: DIGITALOCEAN_FAULTS="{{ quote(seed) }}
    pass faults env -u WASM_CCM DIGITALOCEAN_FAULTS={{ quote(seed) }} cargo test --workspace --test system --no-fail-fast -- digitalocean:: --skip webhook::
    pass providers env --chdir=providers cargo test --workspace --no-fail-fast --target "$(rustc -vV | sed -n 's/^host: //p')"
    pass new {{ quote(just_executable()) }} _new-provider
    if [ ${#failures[@]} -gt 0 ]; then
        echo "${#failures[@]} failed; their output is in $logs:"
        printf '    %s\n' "${failures[@]}"
        exit 1
    fi

# OpenStack on loopback, for `test-openstack`: installs it (Debian 12, root) and starts it. ARGS: stop, status, clean, pause SERVICE, ...
lab-openstack *ARGS: (_install "python3:python3")
    #!/usr/bin/env bash
    set -euo pipefail
    if [ -n {{ quote(ARGS) }} ]; then
        exec python3 tests/clouds/openstack/lab.py {{ ARGS }}
    fi
    python3 tests/clouds/openstack/lab.py install
    python3 tests/clouds/openstack/lab.py start

# System tests with a real OpenStack. It needs Debian 12 and root: elsewhere nothing is tested, and the last line says so. A lab that runs
# already is used, and left running.
[doc("System tests with a real OpenStack, which is installed and started for them (Debian 12, root)")]
test-openstack *FILTERS: build-providers _control-plane _programs
    #!/usr/bin/env bash
    set -euo pipefail
    {{ quote(just_executable()) }} _can-have-openstack tested || exit 0
    export RUST_TEST_THREADS={{ threads }}
    cargo test --workspace --test openstack --no-run
    {{ quote(just_executable()) }} _with-openstack tests cargo test --workspace --test openstack --no-fail-fast -- --ignored {{ FILTERS }}

# Whether OpenStack can run here; if not, the last line says that nothing was done with it.
[no-exit-message]
_can-have-openstack DONE: (_install "python3:python3")
    #!/usr/bin/env bash
    set -euo pipefail
    if ! python3 tests/clouds/openstack/lab.py is-debian-12; then
        echo "OpenStack is NOT {{ DONE }}, its lab is made of Debian 12's packages and this is another system" \
            | tee -a "${SKIPPED:-/dev/null}" | sed 's/^/==> SKIPPED: /' >&2
        exit 1
    fi

# A command while OpenStack runs, and how long each part took. A lab that runs already is used, and left running.
[positional-arguments]
_with-openstack NAME *COMMAND:
    #!/usr/bin/env bash
    set -euo pipefail
    lab=tests/clouds/openstack/lab.py
    timed() { # name command...
        local name=$1 start=$SECONDS code=0
        shift
        "$@" || code=$?
        echo "==> OpenStack, $name: $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
        return "$code"
    }
    timed install python3 "$lab" install
    if [[ $(python3 "$lab" status) != *"runs, process"* ]]; then
        trap 'python3 "$lab" stop' EXIT
    fi
    timed start python3 "$lab" start
    timed "$@"

# What `wasm-ccm new` writes: its tests, its component, and `check` with the flags of its README. It shares what providers are made of.
_new-provider: _programs
    #!/usr/bin/env bash
    set -euo pipefail
    {{ quote(just_executable()) }} _install python3:python3
    host=$(realpath {{ quote(dev_programs) }}/wasm-ccm)
    rm -rf target/new && mkdir -p target/new && cd target/new
    "$host" new acme
    # Without a network there are these versions alone.
    cp ../../providers/Cargo.lock acme/
    cd acme
    export CARGO_TARGET_DIR={{ quote(wasm) }}
    cargo test --target "$(rustc -vV | sed -n 's/^host: //p')"
    RUSTFLAGS={{ quote(release_flags) }} cargo build --release
    echo my-token >token
    component=$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/acme.wasm
    # Without its cloud, not everything is judged.
    "$host" check "$component" --cloud-provider acme --allow-host=api.acme.example --credential=token=file:token || [ $? = 3 ]
    # And with its cloud, on any port.
    exec 3< <(exec python3 -c 'from cloud import *
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cloud)
    print(server.server_port, flush=True)
    server.serve_forever()' 2>requests.log)
    trap "kill $!" EXIT
    read -r port <&3
    "$host" check "$component" --cloud-provider acme --online --endpoint=api=http://127.0.0.1:$port --allow-http --allow-loopback \
        --credential=token=file:token
    grep -q 'GET /v1/machines' requests.log

# Format, clippy, docs, shell syntax, lengths of files; for=aarch64-unknown-linux-gnu: what clippy and rustdoc of that processor say
lint for="": _tools _lint-files _built-once (_target for)
    cargo fmt --all --check
    cd providers && cargo fmt --all --check
    {{ if for == "" { "" } else { unlinked } }} cargo clippy --workspace --all-targets {{ if for == "" { "" } else { "--target " + for } }} -- -D warnings
    cd providers && cargo clippy --workspace -- -D warnings
    cd providers && cargo clippy --workspace --all-targets --target "$(rustc -vV | sed -n 's/^host: //p')" -- -D warnings
    {{ if for == "" { "" } else { unlinked } }} RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps {{ if for == "" { "" } else { "--target " + for } }}
    cd providers && RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, banned and duplicate dependencies, sources (the first run installs cargo-deny)
deny: _tools (_cargo-tool "cargo-deny" cargo_deny)
    #!/usr/bin/env bash
    set -euo pipefail
    deny={{ quote(cache) }}/cargo-deny-{{ cargo_deny }}
    "$deny/bin/cargo-deny" check bans licenses sources
    cd providers
    # What the host's graph alone has, here matches nothing.
    "$deny/bin/cargo-deny" --config ../deny.toml --target wasm32-unknown-unknown check --allow unmatched-skip bans licenses sources

# Known holes in dependencies, by the database of RustSec. Where that is out of reach nothing is checked, and the last line says so.
advisories: _tools (_cargo-tool "cargo-deny" cargo_deny)
    #!/usr/bin/env bash
    set -euo pipefail
    if ! GIT_TERMINAL_PROMPT=0 timeout 60 git ls-remote --quiet https://github.com/rustsec/advisory-db HEAD >/dev/null; then
        echo "advisories are NOT checked, https://github.com/rustsec/advisory-db is out of reach" \
            | tee -a "${SKIPPED:-/dev/null}" | sed 's/^/==> SKIPPED: /' >&2
        exit 0
    fi
    deny=$(realpath {{ quote(cache) }}/cargo-deny-{{ cargo_deny }}/bin/cargo-deny)
    "$deny" check advisories
    cd providers && "$deny" --config ../deny.toml check advisories

# Builds our providers once more, from a copy of this checkout in another folder: they have the same bytes
reproducible: build-providers
    #!/usr/bin/env bash
    set -euo pipefail
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d "" file; do
        [ ! -e "$file" ] || cp --parents -P -- "$file" "$copy"
    done
    cd "$copy"
    CARGO_TARGET_DIR=$copy/target-of-providers ./just build-providers
    cd - >/dev/null
    for provider in {{ providers }}; do
        name=${provider%%:*}
        cmp "target/providers/$name.wasm" "$copy/target/providers/$name.wasm"
        echo "$name: $(sha256sum <"target/providers/$name.wasm" | cut -c -64)"
    done

# Plays exchanges of components with so many seeds: uploads, outages, crashes, failovers
simulate seeds="100000": _tools
    SWAP_SEEDS={{ seeds }} cargo test --quiet --workspace --lib -- slot::tests::simulation

# libFuzzer on one promise of the `fuzz` modules, or on all, so many seconds each; what it found is in target/fuzz/TARGET
fuzz target="all" seconds="60": _tools (_cargo-tool "cargo-bolero" cargo_bolero "cargo-bolero" "--no-default-features --features libfuzzer")
    #!/usr/bin/env bash
    set -euo pipefail
    export PATH={{ quote(cache) }}/cargo-bolero-{{ cargo_bolero }}/bin:$PATH
    failed=()
    crates="egress sandbox rollout serving"
    [ {{ quote(target) }} = all ] || crates={{ quote(target) }}
    for crate in $crates; do
        crate=${crate%%-*}
        for test in $(cargo test --quiet -p ccm-$crate --lib --profile fuzz -- --list fuzz:: | sed -n 's/: test$//p'); do
            name=$crate-${test##*::}
            [ {{ quote(target) }} = all ] || [ {{ quote(target) }} = "$name" ] || continue
            out=target/fuzz/$name
            mkdir -p "$out/corpus" "$out/crashes"
            # Without a sanitizer the stable compiler is enough: there is no unsafe code of ours to watch.
            if cargo bolero test -p ccm-$crate "$test" --profile fuzz --engine libfuzzer --sanitizer NONE \
                -T {{ seconds }}s --corpus-dir "$out/corpus" --crashes-dir "$out/crashes" >"$out/log" 2>&1; then
                echo "$name: $(grep -ao 'stat::number_of_executed_units: *[0-9]*\|^Done [0-9]* runs' "$out/log" | tail -1)," \
                    "$(grep -ao 'cov: [0-9]* ft: [0-9]*' "$out/log" | tail -1)"
            else
                failed+=("$name")
                echo "$name: see $out/log"
            fi
        done
    done
    [ ${#failed[@]} -eq 0 ] || { echo "found something: ${failed[*]}"; exit 1; }

# Man pages of all commands: target/man/man1
man: _programs
    {{ quote(dev_programs) }}/wasm-ccm man target/man/man1

# The generated parts of docs/reference, and docs/providers.schema.json
reference: build-providers _programs
    REFERENCE=write cargo test --quiet --workspace --lib --test docs -- the_reference_has_every
    {{ quote(dev_programs) }}/wasm-ccm providers-schema >docs/providers.schema.json

# Format everything
fmt: _tools
    cargo fmt --all
    cd providers && cargo fmt --all

# The host, optimised: target/release/wasm-ccm
build: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release -p wasm-ccm
    host=${CARGO_TARGET_DIR:-target}/release/wasm-ccm
    size=$(wc -c <"$host")
    echo "$host: $size bytes"
    if [ "$size" -gt {{ host_limit }} ]; then
        echo "error: $host has more than {{ host_limit }} bytes" >&2
        exit 1
    fi
    linked=$(readelf --dynamic --segments --wide "$host")
    if [[ "$linked" != *BIND_NOW* || "$linked" != *GNU_RELRO* ]]; then
        echo "error: $host is linked without full RELRO: its table of addresses stays writable" >&2
        exit 1
    fi

# The providers as components: target/providers/*.wasm
build-providers: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    export RUSTFLAGS={{ quote(release_flags) }}
    packages=()
    for entry in {{ providers }}; do packages+=(-p "${entry%%:*}"); done
    (cd providers && cargo build --release "${packages[@]}")
    mkdir -p target/providers
    for entry in {{ providers }}; do
        provider=${entry%%:*} limit=${entry##*:}
        component=target/providers/$provider.wasm
        cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/$provider.{wasm,d} target/providers/
        size=$(wc -c <"$component")
        packed=$(gzip -9c "$component" | wc -c)
        echo "$component: $size bytes, $packed as .gz"
        if [ "$size" -gt "$limit" ] || [ "$packed" -gt $((limit / 2)) ]; then
            echo "error: $component has more than $limit bytes, or more than half of that as .gz" >&2
            exit 1
        fi
        if grep -aq 'wasi:' "$component"; then
            echo "error: $component imports WASI: $(grep -aoE 'wasi:[a-z0-9/@.-]+' "$component" | sort -u | tr '\n' ' ')" >&2
            exit 1
        fi
    done

# A provider into manifests/overlays/NAME, ready to be applied
overlay NAME: (_has-overlay NAME) build-providers
    #!/usr/bin/env bash
    set -euo pipefail
    name={{ quote(NAME) }}
    overlay=manifests/overlays/$name
    # Without time and name, so that the same component has the same digest.
    gzip -9nc "target/providers/$name.wasm" >"$overlay/$name.wasm.gz"
    echo "Say in $overlay/kustomization.yaml where the image is (newName, newTag), then"
    echo "    kubectl apply --server-side -k $overlay"

# A provider into manifests/chart, ready to be installed with Helm
chart NAME: (_in-chart NAME) build-providers
    #!/usr/bin/env bash
    set -euo pipefail
    name={{ quote(NAME) }}
    # A release holds all that is in the chart: one component is enough.
    rm -f manifests/chart/components/*.wasm.gz
    gzip -9nc "target/providers/$name.wasm" >"manifests/chart/components/$name.wasm.gz"
    echo "helm upgrade --install wasm-ccm manifests/chart --namespace kube-system --set provider=$name,image.repository=REGISTRY/wasm-ccm --set-string image.tag=TAG"

# Before anything is built for it.
[no-exit-message]
_has-overlay NAME:
    #!/usr/bin/env bash
    overlay=manifests/overlays/{{ quote(NAME) }}
    if [ ! -f "$overlay/kustomization.yaml" ]; then
        echo "error: there is no $overlay; there are: $(ls manifests/overlays | xargs)" >&2
        exit 1
    fi

[no-exit-message]
_in-chart NAME:
    #!/usr/bin/env bash
    name={{ quote(NAME) }}
    if [ ! -f "manifests/chart/providers/$name.yaml" ]; then
        echo "error: the chart knows no provider $name; it knows: $(basename -s .yaml manifests/chart/providers/* | xargs)" >&2
        exit 1
    fi

# Each provider into its overlay
overlays: build-providers
    #!/usr/bin/env bash
    set -euo pipefail
    for overlay in manifests/overlays/*/; do
        {{ quote(just_executable()) }} overlay "$(basename "$overlay")"
    done

# What takes too long for every change: a hundred exchanges of a provider under load
nightly: build-providers _guests _control-plane _programs (_matched "exchanges_under_load")
    SWAP_EXCHANGES=100 cargo test --workspace --test system -- exchanges_under_load

# System tests on other versions of Kubernetes, each built once (about six minutes on two idle cores): the oldest and the newest that are
# supported, or those of KUBERNETES, as in KUBERNETES=1.34 ./just test-kubernetes. All of them are run, whatever fails.
[doc("System tests on the oldest and the newest version of Kubernetes that is supported, or on those of KUBERNETES")]
test-kubernetes: build-providers _guests _programs (_matched kubernetes_tests)
    #!/usr/bin/env bash
    set -uo pipefail
    failed=()
    for version in {{ kubernetes }}; do
        export KUBERNETES=$version RUST_TEST_THREADS={{ threads }}
        echo "==> Kubernetes $version"
        tests/cluster/control-plane/build >/dev/null &&
            cargo test --workspace --test control_plane -- the_api_server_has_the_version &&
            env -u DIGITALOCEAN_FAULTS cargo test --workspace --test system --no-fail-fast -- {{ kubernetes_tests }} || failed+=("$version")
    done
    if [ ${#failed[@]} -gt 0 ]; then
        echo "failed with Kubernetes ${failed[*]}" >&2
        exit 1
    fi

# The image of the host, as an OCI layout: target/image/oci. Every tool for images takes it: `podman pull oci:target/image/oci:wasm-ccm`,
# `skopeo copy oci:target/image/oci:wasm-ccm docker://REGISTRY/wasm-ccm:TAG`. Optimised, and linked to the glibc of this machine.
[doc("The image of the host, as an OCI layout: target/image/oci")]
image: build
    image/build "${CARGO_TARGET_DIR:-target}/release/wasm-ccm" target/image

# The image as a pod of the Deployment has it, non-root and read-only, against a real API server (root, umoci and runc)
image-test: image build-providers _control-plane _programs (_matched "image::")
    #!/usr/bin/env bash
    set -euo pipefail
    {{ quote(just_executable()) }} _install umoci:umoci runc:runc
    if [ "$(id -u)" -ne 0 ]; then
        echo "error: a container for a user of its own is made by root" >&2
        exit 1
    fi
    rm -rf target/image/bundle
    umoci unpack --image target/image/oci:wasm-ccm target/image/bundle
    WASM_CCM_BUNDLE=$PWD/target/image/bundle cargo test --workspace --test system -- --ignored image::

# The status page in a real browser (the first run installs Debian's chromium); its pictures are target/tmp/status-*.png
browser-test: build-providers _control-plane _programs (_matched "status::browser::")
    {{ quote(just_executable()) }} _install chromium:chromium
    cargo test --workspace --test system -- --ignored status::browser::

# System tests, demo and overlays with the optimised host, which is what the image has
release-test: build build-providers _guests _control-plane _programs (_matched release_tests)
    #!/usr/bin/env bash
    set -euo pipefail
    export WASM_CCM=$PWD/target/release/wasm-ccm
    if [ -n "${CARGO_TARGET_DIR:-}" ]; then export WASM_CCM=$CARGO_TARGET_DIR/release/wasm-ccm; fi
    RUST_TEST_THREADS={{ threads }} cargo test --workspace --test system --no-fail-fast -- {{ release_tests }}
    {{ quote(just_executable()) }} demo
    {{ quote(just_executable()) }} overlays

# What the host is made of: CycloneDX, target/image/wasm-ccm.cdx.json (the first run installs cargo-cyclonedx)
sbom: _tools (_cargo-tool "cargo-cyclonedx" cargo_cyclonedx)
    #!/usr/bin/env bash
    set -euo pipefail
    tool={{ quote(cache) }}/cargo-cyclonedx-{{ cargo_cyclonedx }}
    mkdir -p target/image
    # It writes one for each crate of the workspace, beside its Cargo.toml, and where that is.
    trap 'find runtime tests -name sbom.cdx.json -delete' EXIT
    "$tool/bin/cargo-cyclonedx" cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename sbom.cdx
    sed "s|$PWD|.|g" runtime/wasm-ccm/sbom.cdx.json >target/image/wasm-ccm.cdx.json
    echo "target/image/wasm-ccm.cdx.json: $(grep -c '"purl"' target/image/wasm-ccm.cdx.json) components"

# One benchmark (nodes, services, routes, digitalocean, openstack, swap, sandbox, egress, hostile, footprint): a table, and
# target/bench/NAME.jsonl. For openstack, a lab is started, unless one runs already.
[doc("One benchmark (nodes, services, routes, digitalocean, openstack, swap, sandbox, egress, hostile, footprint)")]
bench NAME *ARGS: _tools build-providers _guests _control-plane
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p target/bench
    case {{ quote(NAME) }} in
        # These measure what is in their own process.
        sandbox | hostile) exec cargo run --release -p ccm-e2e --bin bench-{{ NAME }} -- {{ ARGS }} ;;
        egress)
            # On one core: where the two ends of an exchange have one each, how fast a sleeping core wakes up is most of what is measured.
            last_core=$(taskset --cpu-list --pid $$ | sed 's/.*[^0-9]//')
            cargo build --release -p ccm-e2e --bin bench-egress
            exec taskset --cpu-list "$last_core" "${CARGO_TARGET_DIR:-target}/release/bench-egress" {{ ARGS }}
            ;;
    esac
    if [ {{ quote(NAME) }} = nodes ]; then {{ quote(just_executable()) }} _go-manager; fi
    lab=()
    if [ {{ quote(NAME) }} = openstack ]; then
        {{ quote(just_executable()) }} _can-have-openstack measured || exit 0
        lab=({{ quote(just_executable()) }} _with-openstack measurements)
    fi
    # What is measured is optimised; what measures need not be.
    cargo build --release -p wasm-ccm
    cargo build {{ dev }}
    export WASM_CCM="${CARGO_TARGET_DIR:-target}/release/wasm-ccm"
    exec "${lab[@]}" {{ quote(dev_programs) }}/bench-{{ NAME }} {{ ARGS }}

# A private control plane to play with, until Ctrl-C
cluster: _tools _control-plane
    cargo build {{ dev }} -p ccm-cluster
    exec {{ quote(dev_programs) }}/ccm-cluster

# A provider each in C, Go, JavaScript and Python, and a table of them (the first run installs their tool chains)
hello: _hello-tools _control-plane _programs (_matched "hello::")
    #!/usr/bin/env bash
    set -euo pipefail
    cache={{ quote(cache) }}
    npm=$cache/{{ hello_npm }}/node_modules
    python=$cache/componentize-py-{{ componentize_py }}
    export PATH=$cache/wit-bindgen-cli-{{ wit_bindgen }}/bin:$cache/wasm-tools-{{ wasm_tools }}/bin:$npm/.bin:$python/bin:$PATH
    export PYTHONPATH=$python PYTHONDONTWRITEBYTECODE=1 ADAPTER=$npm/@bytecodealliance/jco/lib/wasi_snapshot_preview1.reactor.wasm
    mkdir -p target/hello
    for language in c go js python; do
        echo "==> $language"
        rm -f target/hello/$language{,-*}.wasm
        # A tool chain that is not there leaves its component out; the table says so.
        providers/hello/$language/build target/hello >target/hello/$language.log 2>&1 || tail -n 20 target/hello/$language.log >&2
        sources=$(find providers/hello/$language wit/v0.2 -type f | sed "s|^|$PWD/|" | xargs)
        for component in target/hello/$language{,-*}.wasm; do
            [ -f "$component" ] && echo "$PWD/$component: $sources" >"${component%.wasm}.d"
        done
    done
    {{ quote(dev_programs) }}/hello
    RUST_TEST_THREADS={{ threads }} cargo test --workspace --test system -- --ignored hello::

# Remove what was built here; the control plane in the cache folder stays
clean:
    cargo clean
    cd providers && cargo clean

# The next version of cloudlycke: both builds have the same name, and `build-providers` takes its own again.
_next: _tools
    cd providers && RUSTFLAGS={{ quote(release_flags) }} cargo build --release -p cloudlycke --features next
    mkdir -p target/providers
    for kind in wasm d; do cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/cloudlycke.$kind target/providers/cloudlycke-next.$kind; done

# Both builds of successor have the same name: one after the other.
_guests: _tools
    cd providers && RUSTFLAGS={{ quote(release_flags) }} cargo build --release -p hostile --target wasm32-unknown-unknown --target wasm32-wasip2
    cd providers && RUSTFLAGS={{ quote(release_flags) }} cargo build --release -p scripted -p session -p balancer
    cd providers && RUSTFLAGS={{ quote(release_flags) }} cargo build --release -p successor --features bare
    mkdir -p target/guests
    for kind in wasm d; do cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/successor.$kind target/guests/successor-bare.$kind; done
    cd providers && RUSTFLAGS={{ quote(release_flags) }} cargo build --release -p successor
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/{successor,hostile,scripted,session,balancer}.{wasm,d} target/guests/
    for kind in wasm d; do cp {{ quote(wasm) }}/wasm32-wasip2/release/hostile.$kind target/guests/hostile-wasi.$kind; done

# Each of these filters matches a system test: cargo is content with a filter that matches none.
_matched *FILTERS: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    tests=$(cargo test --quiet --workspace --test system -- --list)
    for filter in {{ FILTERS }}; do
        [[ $tests == *"$filter"* ]] || { echo "error: no system test is called $filter" >&2; exit 1; }
    done

# What tests, demo and benchmarks run, beside components.
_programs: _tools
    cargo build {{ dev }}

# The Go framework's manager, which `bench nodes` measures beside the host.
_go-manager: _tools
    cd tests/cluster/control-plane && CGO_ENABLED=0 GOGC=off GOMEMLIMIT=2GiB go build -gcflags=all=-dwarf=false -trimpath -buildvcs=false -ldflags "-s -w" -o {{ quote(justfile_directory() / "target" / "go-manager") }} ./go-manager

_control-plane: _tools
    @tests/cluster/control-plane/build >/dev/null

# A tool of cargo's into the cache folder, once. It runs for a second: to optimise it takes longer than it would ever save. One at a
# time; whoever waits finds the result.
_cargo-tool NAME VERSION PROGRAM=NAME *FLAGS:
    #!/usr/bin/env bash
    set -euo pipefail
    name={{ quote(NAME) }} version={{ quote(VERSION) }} program={{ quote(PROGRAM) }}
    folder={{ quote(cache) }}/$name-$version
    mkdir -p "$folder"
    exec 9>"$folder/.lock"
    flock 9
    if [ ! -x "$folder/bin/$program" ]; then
        echo "installing $name $version into $folder (once)" >&2
        CARGO_PROFILE_DEV_DEBUG=none cargo install "$name" --debug --quiet --locked --version "$version" --root "$folder" {{ FLAGS }}
    fi

# Tool chains of the providers in other languages. What cannot be installed is told, and left out.
_hello-tools: _tools
    #!/usr/bin/env bash
    set -uo pipefail
    just={{ quote(just_executable()) }} cache={{ quote(cache) }}
    absent() { echo "missing: $1; its providers are left out" >&2; }
    "$just" _cargo-tool wit-bindgen-cli {{ wit_bindgen }} wit-bindgen --no-default-features --features c,go || absent wit-bindgen
    "$just" _cargo-tool wasm-tools {{ wasm_tools }} wasm-tools --no-default-features --features component || absent wasm-tools
    "$just" _install clang:clang wasm-ld:lld npm:npm python3:python3 || absent "clang, npm or Python"
    # Of wasi-libc and the builtins there is no command.
    if ! clang --target=wasm32-wasi -mexec-model=reactor -x c -o /dev/null - <<<'#include <stdlib.h>' 2>/dev/null; then
        "$just" _install wasi-libc:wasi-libc+libclang-rt-dev-wasm32 >/dev/null 2>&1
    fi
    npm=$cache/{{ hello_npm }}
    if [ ! -d "$npm/node_modules" ]; then
        echo "installing componentize-js {{ componentize_js }} and componentize-qjs {{ componentize_qjs }} into $npm (once)" >&2
        mkdir -p "$npm" && rm -rf "$npm/new" && mkdir "$npm/new"
        if npm install --prefix "$npm/new" --silent --no-audit --no-fund --no-package-lock --before={{ npm_day }} \
            @bytecodealliance/componentize-js@{{ componentize_js }} componentize-qjs@{{ componentize_qjs }}; then
            mv "$npm/new/node_modules" "$npm"
        else
            absent "componentize-js and componentize-qjs"
        fi
    fi
    python=$cache/componentize-py-{{ componentize_py }}
    if [ ! -x "$python/bin/componentize-py" ]; then
        echo "installing componentize-py {{ componentize_py }} into $python (once)" >&2
        python3 -m pip install --quiet --target "$python" componentize-py=={{ componentize_py }} || absent componentize-py
    fi
    exit 0

# What CI builds while its first steps leave something idle, in the order in which it is needed.
_aside: _control-plane _chart-tools _lab-packages (_cargo-tool "cargo-deny" cargo_deny) (_cargo-tool "cargo-cyclonedx" cargo_cyclonedx) _hello-tools

# Packages of OpenStack's lab, where it can run.
_lab-packages: (_install "python3:python3")
    -@lab=tests/clouds/openstack/lab.py; if python3 $lab is-debian-12 && [ "$(id -u)" -eq 0 ]; then python3 $lab install; fi

# Helm and promtool, which tests run.
_chart-tools: _tools
    tests/e2e/go-tools/run promtool --version >/dev/null
    tests/e2e/go-tools/run helm version >/dev/null

# What `cargo check` for another processor needs: its standard library, and for what is in C Debian's cross compiler.
_target NAME: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    name={{ quote(NAME) }}
    [ -z "$name" ] && exit 0
    case $name in
        aarch64-unknown-linux-gnu) {{ quote(just_executable()) }} _install aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu+libc6-dev-arm64-cross ;;
        *) echo "error: no cross compiler is known for $name; there is aarch64-unknown-linux-gnu" >&2 && exit 1 ;;
    esac
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$name" ]; then
        rustup target add "$name"
    fi
    mkdir -p target/unlinked && touch target/unlinked/libjemalloc.so

_lint-files:
    #!/usr/bin/env bash
    set -euo pipefail
    failed=0
    sources() { git ls-files --cached --others --exclude-standard "$@"; }
    while read -r file; do
        bash -n "$file" || failed=1
    done < <(sources just .ci/run image/build tests/cluster/control-plane/build tests/e2e/go-tools/run 'providers/hello/*/build' '*.sh')
    while read -r file; do
        lines=$(wc -l <"$file")
        if [ "$lines" -gt 500 ]; then
            echo "error: $file has $lines lines, the limit is 500" >&2
            failed=1
        fi
    done < <(sources '*.rs' '*.sh' '*.go' '*.py' just .ci/run image/build tests/e2e/go-tools/run)
    exit "$failed"

# What demo and benchmarks are built of, tests are built of: a dependency with one feature more is built again, and all that uses it.
_built-once: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    built() { cargo tree "$@" --format "{p} {f}" --prefix none | sed 's/ (proc-macro)//; s/ (\*)//' | sort -u; }
    mkdir -p target
    built --workspace >target/built-by-tests
    twice=$(built {{ dev }} --edges no-dev | comm -23 - target/built-by-tests)
    if [ -n "$twice" ]; then
        echo "error: tests add features to these, and cargo builds them twice; give tests/features/Cargo.toml the same ones:" >&2
        sed 's/^/    /' <<<"$twice" >&2
        exit 1
    fi

# Installs what is missing and can be installed; says what to do about the rest.
_tools:
    #!/usr/bin/env bash
    set -euo pipefail
    missing=0
    missing() {
        echo "missing: $1" >&2
        echo "    $2" >&2
        missing=1
    }
    toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)

    # A C compiler for the linker and the cryptography of TLS, make for the allocator; the rest is what tests call.
    {{ quote(just_executable()) }} _install cc:gcc+libc6-dev make:make git:git gzip:gzip flock:util-linux taskset:util-linux \
        chrt:util-linux kill:procps openssl:openssl || missing=1

    # Not every rustup installs the tool chain of rust-toolchain.toml by itself.
    if ! cargo --version >/dev/null 2>&1 && command -v rustup >/dev/null; then
        echo "installing Rust $toolchain" >&2
        rustup toolchain install "$toolchain" --no-self-update --profile minimal --component clippy --component rustfmt >&2 || true
    fi
    if ! cargo --version >/dev/null 2>&1; then
        missing "Rust $toolchain" "install rustup (https://rustup.rs), then run this again"
    else
        libraries=$(rustc --print sysroot)/lib/rustlib
        for target in wasm32-unknown-unknown wasm32-wasip2; do
            [ -d "$libraries/$target" ] && continue
            if command -v rustup >/dev/null; then
                echo "installing Rust's target $target" >&2
                rustup target add --toolchain "$toolchain" "$target" >&2 || true
            fi
            if [ ! -d "$libraries/$target" ]; then
                missing "Rust's target $target" "rustup target add --toolchain $toolchain $target"
            fi
        done
        for component in clippy rustfmt; do
            cargo "${component/rust/}" --version >/dev/null 2>&1 && continue
            if ! rustup component add --toolchain "$toolchain" "$component" >&2; then
                missing "$component" "rustup component add --toolchain $toolchain $component"
            fi
        done
    fi

    # Any Go from 1.21 on fetches the version that go.mod names.
    if [ -z "${KUBEBUILDER_ASSETS:-}" ] && ! (cd tests/cluster/control-plane && go version) >/dev/null 2>&1; then
        missing "Go 1.26, which builds the control plane of the tests, and runs clients of vendors" "install it (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok"
    fi
    exit "$missing"

# Installs what is not there, each given as COMMAND:PACKAGE+PACKAGE of Debian; where it cannot, it says what to do.
_install +COMMANDS:
    #!/usr/bin/env bash
    set -euo pipefail
    packages() { # of commands that are not there
        for entry in {{ COMMANDS }}; do
            type -P "${entry%%:*}" >/dev/null || tr '+' '\n' <<<"${entry#*:}"
        done | sort -u | xargs
    }
    wanted=$(packages)
    [ -z "$wanted" ] && exit 0
    if [ "$(id -u)" -eq 0 ] && type -P apt-get >/dev/null; then
        echo "installing $wanted" >&2
        apt-get update -qq >/dev/null || true
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -qq -y --no-install-recommends $wanted >/dev/null || true
        wanted=$(packages)
        [ -z "$wanted" ] && exit 0
    fi
    echo "missing: $wanted" >&2
    echo "    Debian, Ubuntu: apt-get install $wanted. Fedora has most of them under the same names" >&2
    exit 1
