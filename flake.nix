# nix run . -- check prog.o        nix profile install .        nix develop
{
  description = "Kiln: verifies, shrinks and runs eBPF programs, with a proof for every rewrite";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "kiln";
          inherit version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "-p" "kiln-cli" ];
          nativeBuildInputs = [ pkgs.pkg-config pkgs.rustPlatform.bindgenHook pkgs.installShellFiles ];
          buildInputs = [ pkgs.elfutils pkgs.zlib pkgs.z3 ];
          # The tests need root, Debian's kernel sources and clang 19: make test.
          doCheck = false;
          postInstall = ''
            mkdir manual
            $out/bin/kiln manual manual
            installManPage manual/*.1
            installShellCompletion --cmd kiln \
              --bash <($out/bin/kiln completions bash) \
              --zsh <($out/bin/kiln completions zsh) \
              --fish <($out/bin/kiln completions fish)
          '';
          meta = {
            description = "Verifies, shrinks and runs eBPF programs, with a proof for every rewrite";
            license = with pkgs.lib.licenses; [ asl20 mit ];
            mainProgram = "kiln";
            platforms = systems;
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ self.packages.${pkgs.stdenv.hostPlatform.system}.default ];
          packages = [ pkgs.cargo pkgs.rustc pkgs.clippy pkgs.rustfmt pkgs.llvmPackages_19.clang-unwrapped pkgs.bpftools ];
        };
      });
    };
}
