# What flake.nix describes, with stand-ins for the packages of nixpkgs: each is its name. The archive of nixpkgs is not needed.
root:
let
  inherit (builtins) attrNames concatStringsSep head listToAttrs map sort lessThan;
  package = name: { inherit name; };
  pkgs = listToAttrs (map (name: { inherit name; value = package name; })
    [ "pkg-config" "installShellFiles" "elfutils" "zlib" "z3" "cargo" "rustc" "clippy" "rustfmt" "bpftools" ]) // {
    rustPlatform = { buildRustPackage = given: given; bindgenHook = package "bindgenHook"; };
    lib.licenses = { asl20 = "asl20"; mit = "mit"; };
    mkShell = given: given;
    stdenv.hostPlatform.system = "x86_64-linux";
    llvmPackages_19.clang-unwrapped = package "clang-unwrapped";
  };
  nixpkgs = {
    lib.genAttrs = names: make: listToAttrs (map (name: { inherit name; value = make name; }) names);
    legacyPackages = { x86_64-linux = pkgs; aarch64-linux = pkgs; };
  };
  flake = (import (root + "/flake.nix")).outputs { inherit self nixpkgs; };
  self = flake;
  kiln = flake.packages.x86_64-linux.default;
  names = list: sort lessThan (map (one: one.name) list);
  needs = names (kiln.buildInputs ++ [ (head kiln.nativeBuildInputs) ]);
in
"${kiln.pname} ${kiln.version} ${concatStringsSep " " (attrNames flake.packages)}; ${builtins.elemAt kiln.cargoBuildFlags 1}; ${concatStringsSep " " needs}; shell with ${(head flake.devShells.x86_64-linux.default.packages).name}"
