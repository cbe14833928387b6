# SPDX-License-Identifier: MIT
"""The allocators that benches compare: which there are, and how a program is
run under one of them.

An allocator is a library for LD_PRELOAD (none: the libc's own) and settings by
environment variables.  Settings are meant to be fair: an allocator's defaults,
and those with which its users make it take less memory.  Whatever the caller's
environment says to an allocator does not reach the programs.
"""
import glob
import os
import subprocess
import sys
import sysconfig

# What allocators take from the environment.
FOREIGN = ("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_",
           "JEMALLOC_", "FALLOW_")


class Peer:
    """One column: an allocator and its settings."""

    def __init__(self, name, library=None, settings=(), idle_ms=2000):
        self.name = name
        self.library = library  # a path, or the name that Debian's has
        self.settings = dict(settings)
        # After so long without work it has given back what it will.
        self.idle_ms = idle_ms

    def environment(self):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(FOREIGN)}
        env.update(self.settings)
        if self.library:
            env["LD_PRELOAD"] = self.library
        return env

    def owns(self, owner):
        """Whether a malloc() out of the file `owner` is this allocator's."""
        if not self.library:
            return os.path.basename(owner).startswith("libc.")
        return os.path.realpath(owner) == os.path.realpath(self.library)

    def describe(self):
        words = [self.library or "the libc's own"]
        words += ["%s=%s" % item for item in sorted(self.settings.items())]
        return "%-12s %s" % (self.name, " ".join(words))


def known(ours):
    """All that are known, fallow last.  jemalloc decays for ten seconds unless
    told otherwise."""
    second = "dirty_decay_ms:1000,narenas:8"
    return [
        Peer("glibc"),
        Peer("glibc-2", None, {"MALLOC_ARENA_MAX": "2"}),
        Peer("jemalloc", "libjemalloc.so.2", idle_ms=10500),
        Peer("jemalloc-1s", "libjemalloc.so.2", {"MALLOC_CONF": second}),
        Peer("jemalloc-bg", "libjemalloc.so.2",
             {"MALLOC_CONF": second + ",background_thread:true"}),
        Peer("mimalloc", "libmimalloc.so.2"),
        Peer("tcmalloc", "libtcmalloc_minimal.so.4"),
        Peer("fallow", ours),
    ]


def library_find(name):
    """The path of a library by its name; None if it is not there."""
    if "/" in name:
        return name if os.path.exists(name) else None
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    places = ["/usr/local/lib", "/usr/lib/" + multiarch, "/usr/lib64",
              "/usr/lib"]
    return next((path for place in places
                 for path in glob.glob(os.path.join(place, name))), None)


def custom(word):
    """NAME=PATH[,VARIABLE=VALUE]...: an allocator that is not known here."""
    name, rest = word.split("=", 1)
    path, *settings = rest.split(",")
    if not os.path.exists(path):
        sys.exit("bench: PEERS=%s: there is no file %s" % (word, path))
    if not all("=" in setting for setting in settings):
        sys.exit("bench: PEERS=%s: behind a comma comes VARIABLE=VALUE" % word)
    return Peer(name, os.path.abspath(path),
                dict(setting.split("=", 1) for setting in settings))


def choose(ours, words):
    """The allocators that are installed, of those that `words` name (none: of
    all); says which are left out."""
    by_name = {peer.name: peer for peer in known(ours)}
    wanted = []
    for word in words or list(by_name):
        if "=" in word:
            wanted.append(custom(word))
        elif word in by_name:
            wanted.append(by_name[word])
        else:
            sys.exit("bench: PEERS=%s is not known: it is one of %s, or "
                     "NAME=PATH[,VARIABLE=VALUE]..." % (
                         word, " ".join(by_name)))
    # Ours stands last, whatever the order in which they were named.
    wanted.sort(key=lambda peer: peer.name == "fallow")
    found = []
    for peer in wanted:
        path = library_find(peer.library) if peer.library else None
        if peer.library and not path:
            print("bench: %s is left out: there is no %s" % (
                peer.name, peer.library), file=sys.stderr)
            continue
        peer.library = os.path.abspath(path) if path else None
        found.append(peer)
    if not found:
        sys.exit("bench: there is nothing to measure")
    return found


def run(peer, command, seconds):
    """Runs a program under an allocator; returns (its output, why it failed or
    nothing)."""
    try:
        done = subprocess.run(
            command, env=peer.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", "not done after %g seconds" % seconds
    errors = done.stderr.strip()
    # The dynamic linker goes on without a preload that it cannot load.
    if "cannot be preloaded" in errors:
        return "", errors
    if done.returncode != 0:
        return "", "%s (exit status %d)" % (
            errors.split("\n")[-1] or "says nothing", done.returncode)
    return done.stdout, ""


def machine():
    """What it was measured on, in one line."""
    model = os.uname().machine
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file
                          if line.startswith("model name")), model)
    except OSError:
        pass
    huge = "?"
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled",
                  encoding="utf-8") as file:
            huge = file.read().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        pass
    return "%d x %s, Linux %s, transparent huge pages: %s" % (
        os.cpu_count() or 1, model, os.uname().release, huge)
