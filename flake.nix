# nix run github:OWNER/becalm -- check PROGRAM, or nix build in a clone
{
  description = "Starts programs without searching for their libraries";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "i686-linux" "riscv64-linux" "powerpc64le-linux" ];
      forSystems = nixpkgs.lib.genAttrs systems;
    in
    {
      packages = forSystems (system: {
        default = import ./packaging/nix { pkgs = nixpkgs.legacyPackages.${system}; };
      });
      overlays.default = final: _: { becalm = final.callPackage ./packaging/nix/package.nix { }; };

      # services.becalm.enable: an index of /nix/store for all sessions, brought up to date daily.
      nixosModules.default = import ./packaging/nix/module.nix self;
    };
}
