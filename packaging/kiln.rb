# A formula for Homebrew on Linux. `cargo xtask dist` fills in version, address and checksums.
class Kiln < Formula
  desc "Verifies, shrinks and runs eBPF programs, with a proof for every rewrite"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]
  depends_on :linux

  on_intel do
    url "@REPOSITORY@/releases/download/v@VERSION@/kiln-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "@REPOSITORY@/releases/download/v@VERSION@/kiln-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  def install
    bin.install "bin/kiln"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/kiln"
    zsh_completion.install "share/zsh/vendor-completions/_kiln"
    fish_completion.install "share/fish/vendor_completions.d/kiln.fish"
    doc.install Dir["share/doc/kiln/*"]
  end

  test do
    (testpath/"pass.bpf").write <<~TEXT
      ; program xdp
        r0 = 2
        exit
    TEXT
    assert_match "accepted", shell_output("#{bin}/kiln check pass.bpf --kernel 6.1")
  end
end
