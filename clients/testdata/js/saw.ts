/** Tells the test what works of a contract. */
export function saw(contract: string, ...operations: string[]): void {
  for (const operation of operations) console.log(JSON.stringify({ contract, operation }));
}
