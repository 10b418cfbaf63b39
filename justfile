# Recipes for developers and CI. `./just RECIPE` needs nothing installed before; `just RECIPE` works as well.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Components that `build-providers` makes, each with its limit in bytes: a ConfigMap holds 1 MiB, and the smaller, the sooner
# loaded. As .gz it has half of that.
providers := "cloudlycke:210000 digitalocean:600000"
cargo_deny := "0.20.2"
cache := env("XDG_CACHE_HOME", env("HOME") / ".cache") / "wasm-ccm"
# Where cargo puts what it builds in providers/.
wasm := env("CARGO_TARGET_DIR", justfile_directory() / "providers/target")
# What fails at random in `test`: another number, other faults.
seed := env("DIGITALOCEAN_FAULTS", "1")

# What demo, tests and benchmarks build. Named together, so that cargo chooses one set of features for all of them, that of
# `cargo test --workspace`, and builds each dependency once.
dev := "-p wasm-ccm -p ccm-e2e -p ccm-test-features"
dev_programs := env("CARGO_TARGET_DIR", "target") / "debug"

# Components name no folder of the machine that built them, so that they are the same bytes everywhere.
no_paths := "--remap-path-prefix=" + justfile_directory() + "=/src --remap-path-prefix=" + env("CARGO_HOME", env("HOME") / ".cargo") + "=/cargo"

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
    cargo build {{ dev }}
    exec {{ quote(dev_programs) }}/demo {{ ARGS }}

# All tests, in both workspaces; builds all that they need. Those of DigitalOcean once more while its cloud fails at random
test: _tools build-providers _guests _control-plane
    cargo build {{ dev }}
    env -u DIGITALOCEAN_FAULTS cargo test --workspace
    @echo "requests to DigitalOcean's cloud fail at random: DIGITALOCEAN_FAULTS="{{ quote(seed) }}
    # These mostly wait.
    env DIGITALOCEAN_FAULTS={{ quote(seed) }} RUST_TEST_THREADS=4 cargo test --workspace --test system -- digitalocean::
    cd providers && cargo test --workspace --target "$(rustc -vV | sed -n 's/^host: //p')"

# Format, clippy, docs, shell syntax, lengths of files
lint: _tools _lint-files
    cargo fmt --all --check
    cd providers && cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cd providers && cargo clippy --workspace -- -D warnings
    cd providers && cargo clippy --workspace --all-targets --target "$(rustc -vV | sed -n 's/^host: //p')" -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
    cd providers && RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, banned and duplicate dependencies, sources (the first run installs cargo-deny)
deny: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    deny={{ quote(cache) }}/cargo-deny-{{ cargo_deny }}
    if [ ! -x "$deny/bin/cargo-deny" ]; then
        echo "installing cargo-deny {{ cargo_deny }} into $deny (once)" >&2
        cargo install cargo-deny --quiet --locked --version {{ cargo_deny }} --root "$deny"
    fi
    "$deny/bin/cargo-deny" check bans licenses sources
    cd providers
    # What the host's graph alone has, here matches nothing.
    "$deny/bin/cargo-deny" --config ../deny.toml --target wasm32-unknown-unknown check --allow unmatched-skip bans licenses sources

# Format everything
fmt: _tools
    cargo fmt --all
    cd providers && cargo fmt --all

# The host, optimised: target/release/wasm-ccm
build: _tools
    cargo build --release -p wasm-ccm
    @ls -l "${CARGO_TARGET_DIR:-target}/release/wasm-ccm" | awk '{ printf "wasm-ccm: %.1f MB\n", $5 / 1e6 }'

# The providers as components: target/providers/*.wasm
build-providers: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    export RUSTFLAGS={{ quote(no_paths) }}
    packages=()
    for entry in {{ providers }}; do packages+=(-p "${entry%%:*}"); done
    (cd providers && cargo build --release "${packages[@]}")
    mkdir -p target/providers
    for entry in {{ providers }}; do
        provider=${entry%%:*} limit=${entry##*:}
        component=target/providers/$provider.wasm
        cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/$provider.wasm "$component"
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
overlay NAME: build-providers
    #!/usr/bin/env bash
    set -euo pipefail
    name={{ quote(NAME) }}
    overlay=manifests/overlays/$name
    if [ ! -f "$overlay/kustomization.yaml" ]; then
        echo "error: there is no $overlay; there are: $(ls manifests/overlays | xargs)" >&2
        exit 1
    fi
    # Without time and name, so that the same component has the same digest.
    gzip -9nc "target/providers/$name.wasm" >"$overlay/$name.wasm.gz"
    echo "Say in $overlay/kustomization.yaml where the image is (newName, newTag), then"
    echo "    kubectl apply --server-side -k $overlay"

# One benchmark (nodes, services, digitalocean, swap, sandbox, egress, footprint): a table, and target/bench/NAME.jsonl
bench NAME *ARGS: _tools build-providers _guests _control-plane
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p target/bench
    case {{ quote(NAME) }} in
        # These measure what is in their own process.
        sandbox | egress) exec cargo run --release -p ccm-e2e --bin bench-{{ NAME }} -- {{ ARGS }} ;;
    esac
    # What is measured is optimised; what measures need not be.
    cargo build --release -p wasm-ccm
    cargo build {{ dev }}
    WASM_CCM="${CARGO_TARGET_DIR:-target}/release/wasm-ccm" exec {{ quote(dev_programs) }}/bench-{{ NAME }} {{ ARGS }}

# A private control plane to play with, until Ctrl-C
cluster: _tools _control-plane
    cargo build {{ dev }} -p ccm-cluster
    exec {{ quote(dev_programs) }}/ccm-cluster

# Remove what was built here; the control plane in the cache folder stays
clean:
    cargo clean
    cd providers && cargo clean

# The next version of cloudlycke: both builds have the same name, and `build-providers` takes its own again.
_next: _tools
    cd providers && RUSTFLAGS={{ quote(no_paths) }} cargo build --release -p cloudlycke --features next
    mkdir -p target/providers
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/cloudlycke.wasm target/providers/cloudlycke-next.wasm

# Both builds of successor have the same name: one after the other.
_guests: _tools
    cd providers && RUSTFLAGS={{ quote(no_paths) }} cargo build --release -p hostile --target wasm32-unknown-unknown --target wasm32-wasip2
    cd providers && RUSTFLAGS={{ quote(no_paths) }} cargo build --release -p scripted -p session -p balancer
    cd providers && RUSTFLAGS={{ quote(no_paths) }} cargo build --release -p successor --features bare
    mkdir -p target/guests
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/successor.wasm target/guests/successor-bare.wasm
    cd providers && RUSTFLAGS={{ quote(no_paths) }} cargo build --release -p successor
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/successor.wasm target/guests/successor.wasm
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/hostile.wasm target/guests/hostile.wasm
    cp {{ quote(wasm) }}/wasm32-wasip2/release/hostile.wasm target/guests/hostile-wasi.wasm
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/scripted.wasm target/guests/scripted.wasm
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/session.wasm target/guests/session.wasm
    cp {{ quote(wasm) }}/wasm32-unknown-unknown/release/balancer.wasm target/guests/balancer.wasm

_control-plane: _tools
    @tests/cluster/control-plane/build >/dev/null

_lint-files:
    #!/usr/bin/env bash
    set -euo pipefail
    failed=0
    sources() { git ls-files --cached --others --exclude-standard "$@"; }
    while read -r file; do
        bash -n "$file" || failed=1
    done < <(sources just .ci/run tests/cluster/control-plane/build '*.sh')
    while read -r file; do
        lines=$(wc -l <"$file")
        if [ "$lines" -gt 500 ]; then
            echo "error: $file has $lines lines, the limit is 500" >&2
            failed=1
        fi
    done < <(sources '*.rs' '*.sh' '*.go' just .ci/run)
    toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if ! grep -q "^FROM docker.io/library/rust:$toolchain-" Containerfile; then
        echo "error: Containerfile does not build with Rust $toolchain, which rust-toolchain.toml names" >&2
        failed=1
    fi
    exit "$failed"

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

    if ! command -v cc >/dev/null; then
        missing "a C compiler (linker, and the cryptography of TLS)" "Debian, Ubuntu: apt-get install gcc libc6-dev. Fedora: dnf install gcc"
    fi
    if ! command -v make >/dev/null; then
        missing "make (builds the host's allocator)" "Debian, Ubuntu: apt-get install make. Fedora: dnf install make"
    fi
    if ! command -v git >/dev/null; then
        missing "git" "Debian, Ubuntu: apt-get install git"
    fi
    if ! command -v flock >/dev/null; then
        missing "flock" "Debian, Ubuntu: apt-get install util-linux"
    fi

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
