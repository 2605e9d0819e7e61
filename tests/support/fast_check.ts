// Not in the import map, whose packages everyone who links a checkout downloads.
export { default } from "npm:fast-check@4.10.2";
