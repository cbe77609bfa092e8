# As much of nixpkgs as the recipes use, so that packaging/check can evaluate them without nixpkgs.
# A derivation is the set of its attributes; evaluating all of them finds misspelt names and types.
let
  lib = {
    importTOML = path: builtins.fromTOML (builtins.readFile path);
    cleanSource = path: path;
    optionalString = condition: text: if condition then text else "";
    genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
    licenses = { mit.spdxId = "MIT"; asl20.spdxId = "Apache-2.0"; };
    platforms.linux = [ "x86_64-linux" ];
    mkEnableOption = what: { type = "bool"; description = what; };
    mkOption = option: option;
    mkIf = condition: attributes: if condition then attributes else { };
    types = { package = "package"; str = "str"; };
  };
  pkgs = {
    inherit lib;
    rustPlatform.buildRustPackage = attributes: {
      type = "derivation";
      outPath = "/nix/store/stub-becalm";
      lock = builtins.fromTOML (builtins.readFile attributes.cargoLock.lockFile);
      hook = builtins.readFile attributes.setupHook;
      source = builtins.pathExists (attributes.src + "/crates/cli/Cargo.toml");
    } // attributes;
    installShellFiles = "installShellFiles";
    llvmPackages = { clang-unwrapped = "clang"; lld = "lld"; };
    stdenv = rec {
      buildPlatform.canExecute = platform: true;
      hostPlatform.system = "x86_64-linux";
    };
    writeShellScript = name: text: { inherit name text; };
    callPackage = file: overrides:
      let f = import file; in f (builtins.intersectAttrs (builtins.functionArgs f) pkgs // overrides);
  };
  flake = import ../../flake.nix;
  outputs = flake.outputs {
    self = outputs;
    nixpkgs = { inherit lib; legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (_: pkgs); };
  };
  module = outputs.nixosModules.default {
    inherit lib pkgs;
    config.services.becalm = {
      enable = true;
      package = outputs.packages.x86_64-linux.default;
      index = "/var/lib/becalm/index.so";
    };
  };
  # All of a derivation is evaluated, not only where its output is.
  whole = derivation: builtins.removeAttrs derivation [ "outPath" "type" ];
in
{
  package = whole (import ./default.nix { inherit pkgs; });
  fromFlake = whole outputs.packages.x86_64-linux.default;
  fromOverlay = whole (outputs.overlays.default pkgs { }).becalm;
  module = { inherit (module) options config; };
}
