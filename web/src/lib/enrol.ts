// The lines with which a machine joins this hub.

export interface Invitation {
	agent_id: string;
	token: string;
	hub_public_key: string;
}

/** Where machines find this hub: where the page came from. */
export function hubAddress(): string {
	return location.origin;
}

export function enrolLine({ agent_id, token, hub_public_key }: Invitation, program = 'convoke agent'): string {
	return `${program} enroll --hub ${hubAddress()} --id ${agent_id} --token ${token} --hub-key ${hub_public_key}`;
}
